"""Convolutional networks: as VGG, ResNet, ConvNeXt, MobileNet, DenseNet and Inception are, and a pair of equal ones."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import (
    ChannelNorm,
    LayerScale,
    MeanOfMap,
    Residual,
    Stack,
    kaiming_,
    normal_,
)
from orthoscope_papers.calibration.tasks import CLASSES


def _conv(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=bias)


def _stages(widths: tuple[int, ...], blocks: int) -> list[tuple[int, int, int]]:
    """Inputs, outputs and stride of every block; every stage but the first begins by halving the map."""
    chain = [(width, int(block == 0 and stage > 0)) for stage, width in enumerate(widths) for block in range(blocks)]
    before = [widths[0], *(width for width, _ in chain)]
    return [(inputs, width, 1 + halves) for inputs, (width, halves) in zip(before, chain, strict=False)]


def vgg(settings: Settings, normalized: bool = False) -> nn.Module:
    """Plain 3x3 convolutions."""

    def block(inputs: int, outputs: int, stride: int) -> nn.Module:
        conv = _conv(inputs, outputs, stride=stride, bias=True)
        norm = [nn.BatchNorm2d(outputs)] if normalized else []
        after = [nn.ReLU(), *norm] if settings.moved else [*norm, nn.ReLU()]
        return nn.Sequential(conv, *after)

    blocks = [block(*sizes) for sizes in _stages((16, 32, 48), 2 * settings.depth)]
    return kaiming_(Stack(_conv(3, 16, bias=True), blocks, MeanOfMap(), nn.Linear(48, CLASSES)))


def vgg_bn(settings: Settings) -> nn.Module:
    """With batch norm before every ReLU."""
    return vgg(settings, normalized=True)


def _basic(inputs: int, outputs: int, stride: int, before: bool, norm: Callable[[int], nn.Module]) -> nn.Module:
    """The basic block of ResNets, with normalization and ReLU `before` the convolutions or after them."""
    convs = (_conv(inputs, outputs, stride=stride), _conv(outputs, outputs))
    if before:
        branch = nn.Sequential(norm(inputs), nn.ReLU(), convs[0], norm(outputs), nn.ReLU(), convs[1])
    else:
        branch = nn.Sequential(convs[0], norm(outputs), nn.ReLU(), convs[1], norm(outputs))
    same = inputs == outputs and stride == 1
    skip = None if same else nn.Sequential(_conv(inputs, outputs, 1, stride), norm(outputs))
    return Residual(branch, outputs, maps=True, skip=skip, act=None if before else nn.ReLU())


def resnet(settings: Settings) -> nn.Module:
    """Basic blocks with batch norm."""
    sizes = _stages((16, 24, 32), 2 * settings.depth)
    blocks = [_basic(*size, settings.moved, nn.BatchNorm2d) for size in sizes]
    stem = nn.Sequential(_conv(3, 16, stride=2), nn.BatchNorm2d(16), nn.ReLU())
    return kaiming_(Stack(stem, blocks, MeanOfMap(), nn.Linear(32, CLASSES)))


def _groups(width: int) -> nn.Module:
    return nn.GroupNorm(4, width)


def preact_resnet(settings: Settings) -> nn.Module:
    """Pre-activation blocks with group norm."""
    sizes = _stages((16, 24, 32), 2 * settings.depth)
    blocks = [_basic(*size, not settings.moved, _groups) for size in sizes]
    neck = nn.Sequential(_groups(32), nn.ReLU(), MeanOfMap())
    return Stack(_conv(3, 16, stride=2), blocks, neck, nn.Linear(32, CLASSES))


def _convnext_block(width: int, after: bool) -> nn.Module:
    branch = nn.Sequential(
        _conv(width, width, 5, groups=width, bias=True),
        nn.Identity() if after else ChannelNorm(width),
        _conv(width, 4 * width, 1, bias=True),
        nn.GELU(),
        _conv(4 * width, width, 1, bias=True),
    )
    norm = ChannelNorm(width) if after else None
    return Residual(branch, width, norm, after=after, maps=True, gate=LayerScale(width, 1e-6, maps=True))


def convnext(settings: Settings) -> nn.Module:
    """Depthwise and pointwise convolutions, layer norm, LayerScale of 1e-6."""
    first = [_convnext_block(24, settings.moved) for _ in range(2 * settings.depth)]
    second = [_convnext_block(48, settings.moved) for _ in range(2 * settings.depth)]
    down = nn.Sequential(ChannelNorm(24), nn.Conv2d(24, 48, 2, 2))
    stem = nn.Sequential(nn.Conv2d(3, 24, 2, 2), ChannelNorm(24))
    neck = nn.Sequential(MeanOfMap(), nn.LayerNorm(48))
    return normal_(Stack(stem, [*first, down, *second], neck, nn.Linear(48, CLASSES)))


class _Squeeze(nn.Module):
    """Squeeze and excitation: channels are weighted by what the whole map shows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(width, width // 4)
        self.act = nn.ReLU()
        self.widen = nn.Linear(width // 4, width)

    def forward(self, x: Tensor) -> Tensor:
        weights = self.widen(self.act(self.reduce(x.mean((-2, -1))))).sigmoid()
        return x * weights[..., None, None]


def _inverted(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The inverted bottleneck of MobileNet and EfficientNet."""
    hidden = 3 * inputs
    branch = nn.Sequential(
        _conv(inputs, hidden, 1),
        nn.BatchNorm2d(hidden),
        nn.SiLU(),
        _conv(hidden, hidden, 3, stride, groups=hidden),
        nn.BatchNorm2d(hidden),
        nn.SiLU(),
        _Squeeze(hidden),
        _conv(hidden, outputs, 1),
        nn.BatchNorm2d(outputs),
    )
    return Residual(branch, outputs, maps=True) if inputs == outputs and stride == 1 else branch


def mobilenet(settings: Settings) -> nn.Module:
    """Inverted bottlenecks with squeeze and excitation, batch norm and SiLU."""
    blocks = [_inverted(*size) for size in _stages((16, 24), 2 * settings.depth)]
    stem = nn.Sequential(_conv(3, 16, stride=2), nn.BatchNorm2d(16), nn.SiLU())
    neck = nn.Sequential(_conv(24, 64, 1), nn.BatchNorm2d(64), nn.SiLU(), MeanOfMap())
    return kaiming_(Stack(stem, blocks, neck, nn.Linear(64, CLASSES)))


class _Dense(nn.Module):
    """A layer of DenseNet: what it makes is put beside what it got."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.act = nn.ReLU()
        self.conv = _conv(inputs, growth)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(self.act(self.norm(x)))], dim=1)


def densenet(settings: Settings) -> nn.Module:
    """Two dense blocks and the transition between them."""
    count, growth, width = 3 * settings.depth, 8, 16
    middle = width + count * growth
    first = [_Dense(width + number * growth, growth) for number in range(count)]
    transition = nn.Sequential(nn.BatchNorm2d(middle), nn.ReLU(), _conv(middle, middle // 2, 1), nn.AvgPool2d(2))
    second = [_Dense(middle // 2 + number * growth, growth) for number in range(count)]
    outputs = middle // 2 + count * growth
    neck = nn.Sequential(nn.BatchNorm2d(outputs), nn.ReLU(), MeanOfMap())
    return kaiming_(Stack(_conv(3, width, stride=2), [*first, transition, *second], neck, nn.Linear(outputs, CLASSES)))


class _Inception(nn.Module):
    """Four branches side by side."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.point = self._branch(_conv(inputs, 12, 1, bias=True))
        self.small = self._branch(_conv(inputs, 8, 1, bias=True), _conv(8, 16, bias=True))
        self.large = self._branch(_conv(inputs, 4, 1, bias=True), _conv(4, 8, 5, bias=True))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, 1, 1), *self._branch(_conv(inputs, 12, 1, bias=True)))

    @staticmethod
    def _branch(*convs: nn.Conv2d) -> nn.Sequential:
        return nn.Sequential(*(layer for conv in convs for layer in (conv, nn.ReLU())))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.point(x), self.small(x), self.large(x), self.pooled(x)], dim=1)


def inception(settings: Settings) -> nn.Module:
    """GoogLeNet's modules, without normalization."""
    stem = nn.Sequential(_conv(1, 24, bias=True), nn.ReLU(), nn.MaxPool2d(2))
    blocks = [_Inception(24 if number == 0 else 48) for number in range(3 * settings.depth)]
    return kaiming_(Stack(stem, blocks, MeanOfMap(), nn.Linear(48, CLASSES)))


class Siamese(nn.Module):
    """One network for both images of a pair; the nearer its outputs, the likelier one class."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        sizes = _stages((16, 32), 2 * settings.depth)
        self.stem = nn.Sequential(_conv(1, 16, stride=2), nn.BatchNorm2d(16), nn.ReLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(_conv(inputs, outputs, stride=stride), nn.BatchNorm2d(outputs), nn.ReLU())
            for inputs, outputs, stride in sizes
        )
        self.head = nn.Linear(32 * 16, 32)
        self.scale = nn.Parameter(torch.tensor([-0.5, 2.0]))

    def embedded(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.flatten(1))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        distance = (self.embedded(first) - self.embedded(second)).square().mean(1)
        return self.scale[0] * distance + self.scale[1]


CONVOLUTIONAL = (
    Family("vgg", "convolutional", "cifar10", vgg, "vgg", own_weights=True),
    Family("vgg batch norm", "convolutional", "cifar10", vgg_bn, "vgg", movable=True, own_weights=True),
    Family("resnet", "convolutional", "cifar10", resnet, movable=True, own_weights=True),
    Family("preact resnet", "convolutional", "cifar10", preact_resnet, movable=True),
    Family("convnext", "convolutional", "cifar10", convnext, movable=True, own_weights=True),
    Family("mobilenet", "convolutional", "cifar10", mobilenet, own_weights=True),
    Family("densenet", "convolutional", "cifar10", densenet, own_weights=True),
    Family("inception", "convolutional", "fashion-mnist", inception, own_weights=True),
    Family("siamese", "convolutional", "pairs", Siamese),
)
