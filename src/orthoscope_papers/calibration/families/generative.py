"""Networks that make images: U-Nets, diffusion models, an autoencoder, and generators from latent codes."""

import math

import torch
from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import Residual, Stack, zero_
from orthoscope_papers.calibration.tasks import CODE, SIDE

_TIME = 32


def _pair(inputs: int, outputs: int, count: int) -> nn.Sequential:
    """Convolutions of a level of a U-Net."""
    layers: list[nn.Module] = []
    for number in range(count):
        before = inputs if number == 0 else outputs
        layers += [nn.Conv2d(before, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Three levels; maps of the way down are put beside those of the way up."""

    def __init__(self, channels: int, settings: Settings) -> None:
        super().__init__()
        count = settings.depth
        sizes = ((channels, 12, 2 * count), (12, 24, count), (24, 32, count), (56, 24, count), (36, 16, 2 * count))
        self.blocks = nn.ModuleList(_pair(*size) for size in sizes)
        self.down = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2)
        self.head = nn.Conv2d(16, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        first = self.blocks[0](x)
        second = self.blocks[1](self.down(first))
        lowest = self.blocks[2](self.down(second))
        x = self.blocks[3](torch.cat([self.up(lowest), second], dim=1))
        return self.head(self.blocks[4](torch.cat([self.up(x), first], dim=1)))


def unet(settings: Settings) -> nn.Module:
    """Removes noise from color images."""
    return UNet(3, settings)


def segmenting_unet(settings: Settings) -> nn.Module:
    """Tells the foreground of a noisy picture."""
    return UNet(1, settings)


class _Time(nn.Module):
    """Sines and cosines of the time of a diffusion, through two linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(_TIME, width)
        self.act = nn.SiLU()
        self.second = nn.Linear(width, width)

    def forward(self, time: Tensor) -> Tensor:
        rates = torch.exp(torch.linspace(0, math.log(1000), _TIME // 2, device=time.device))
        angles = time[:, None] * rates
        return self.second(self.act(self.first(torch.cat([angles.sin(), angles.cos()], dim=-1))))


class _Timed(nn.Module):
    """A residual block of a diffusion model: the time is added between its convolutions, the last of which is zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(4, width)
        self.act1 = nn.SiLU()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.time = nn.Linear(_TIME, width)
        self.norm2 = nn.GroupNorm(4, width)
        self.act2 = nn.SiLU()
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        zero_(self.conv2)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        hidden = self.conv1(self.act1(self.norm1(x))) + self.time(time)[..., None, None]
        return x + self.conv2(self.act2(self.norm2(hidden)))


class DiffusionUNet(nn.Module):
    """Two levels of residual blocks that know the time."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        count = settings.depth
        self.time = _Time(_TIME)
        self.stem = nn.Conv2d(1, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.count = count
        self.blocks = nn.ModuleList(_Timed(width) for width in (16, 32, 16) for _ in range(count))
        self.norm = nn.GroupNorm(4, 16)
        self.act = nn.SiLU()
        self.head = nn.Conv2d(16, 1, 3, padding=1)
        zero_(self.head)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        known, x = self.time(time), self.stem(x)
        kept = x
        for number, block in enumerate(self.blocks):
            if number == self.count:
                kept, x = x, self.down(x)
            if number == 2 * self.count:
                x = self.up(x) + kept
            x = block(x, known)
        return self.head(self.act(self.norm(x)))


class DiffusionMLP(nn.Module):
    """Residual layers on flat images, with adaptive normalization by the time that begins at zero, as in DiT."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        width = 128
        self.time = _Time(_TIME)
        self.stem = nn.Linear(SIDE**2, width)
        self.blocks = nn.ModuleList(_Modulated(width) for _ in range(3 * settings.depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, SIDE**2)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        known, hidden = self.time(time), self.stem(x.flatten(1))
        for block in self.blocks:
            hidden = block(hidden, known)
        return self.head(self.norm(hidden)).view_as(x)


class _Modulated(nn.Module):
    """A block of DiT without attention: shift, scale and gate are linear in the time, and zero at first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.modulation = nn.Linear(_TIME, 3 * width)
        zero_(self.modulation)
        self.expand = nn.Linear(width, 2 * width)
        self.act = nn.GELU()
        self.contract = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        shift, scale, gate = self.modulation(time).chunk(3, dim=-1)
        hidden = self.norm(x) * (1 + scale) + shift
        return x + gate * self.contract(self.act(self.expand(hidden)))


def _enlarging(inputs: int, outputs: int, moved: bool) -> nn.Module:
    conv = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1)
    after = [nn.ReLU(), nn.BatchNorm2d(outputs)] if moved else [nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(conv, *after)


def _keeping(width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())


def generator(settings: Settings) -> nn.Module:
    """DCGAN's generator: transposed convolutions with batch norm."""
    stem = nn.Sequential(nn.Linear(CODE, 32 * 16), nn.Unflatten(1, (32, 4, 4)), nn.BatchNorm2d(32), nn.ReLU())
    extra = [_keeping(32) for _ in range(2 * settings.depth - 1)]
    blocks = [*extra, _enlarging(32, 24, settings.moved), _enlarging(24, 16, settings.moved)]
    return Stack(stem, blocks, nn.Identity(), nn.Conv2d(16, 1, 3, padding=1))


def dense_generator(settings: Settings) -> nn.Module:
    """A fully connected generator with layer norm and skips."""
    width = 128
    blocks = [
        Residual(
            nn.Sequential(nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, width)),
            width,
            nn.LayerNorm(width),
            after=settings.moved,
        )
        for _ in range(3 * settings.depth)
    ]
    head = nn.Sequential(nn.Linear(width, SIDE**2), nn.Unflatten(1, (1, SIDE, SIDE)))
    return Stack(nn.Linear(CODE, width), blocks, nn.LayerNorm(width), head)


def autoencoder(settings: Settings) -> nn.Module:
    """Convolutions down to a bottleneck of 16 numbers, and transposed ones back."""
    count = settings.depth
    down = [_pair(1, 12, count), nn.MaxPool2d(2), _pair(12, 24, count), nn.MaxPool2d(2)]
    code = nn.Sequential(nn.Flatten(), nn.Linear(24 * 16, 16), nn.Linear(16, 24 * 16), nn.Unflatten(1, (24, 4, 4)))
    up = [_enlarging(24, 24, moved=False), *(_keeping(24) for _ in range(count - 1)), _enlarging(24, 12, moved=False)]
    return Stack(nn.Identity(), [*down, code, *up], nn.Identity(), nn.Conv2d(12, 1, 3, padding=1))


GENERATIVE = (
    Family("u-net", "generative", "denoising", unet, "u-net"),
    Family("segmenting u-net", "generative", "foreground", segmenting_unet, "u-net"),
    Family("diffusion u-net", "generative", "noise", DiffusionUNet, own_weights=True),
    Family("diffusion mlp", "generative", "noise", DiffusionMLP, own_weights=True),
    Family("generator", "generative", "images from codes", generator, movable=True),
    Family("dense generator", "generative", "images from noise", dense_generator, movable=True),
    Family("autoencoder", "generative", "reconstruction", autoencoder),
)
