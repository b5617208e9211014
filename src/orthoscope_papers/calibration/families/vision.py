"""Networks of patches of images: as ViT, CaiT, Swin, MLP-Mixer and gMLP are."""

from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import (
    Attention,
    FeedForward,
    Mean,
    Patches,
    Residual,
    Stack,
    normal_,
    transformer_block,
)
from orthoscope_papers.calibration.tasks import CLASSES, SIDE

_WIDTH, _HEADS, _BLOCKS = 48, 4, 4
_PATCH = 4
_TOKENS = (SIDE // _PATCH) ** 2


def vit(settings: Settings, scale: float | None = None) -> nn.Module:
    """Pre-norm Transformer of patches, mean of tokens."""
    blocks = [
        transformer_block(
            _WIDTH,
            Attention(_WIDTH, _HEADS),
            FeedForward(_WIDTH, 4 * _WIDTH),
            after=settings.moved,
            scale=scale,
        )
        for _ in range(_BLOCKS * settings.depth)
    ]
    neck = nn.Sequential(nn.LayerNorm(_WIDTH), Mean())
    return normal_(Stack(Patches(3, _WIDTH, _PATCH, _TOKENS), blocks, neck, nn.Linear(_WIDTH, CLASSES)))


def cait(settings: Settings) -> nn.Module:
    """LayerScale of 1e-4 on every branch."""
    return vit(settings, scale=1e-4)


class _Windows(nn.Module):
    """Attention within windows of 4x4 of 8x8 tokens, shifted in every second block."""

    def __init__(self, shift: int) -> None:
        super().__init__()
        self.shift = shift
        self.attention = Attention(_WIDTH // 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        grid = x.unflatten(1, (8, 8)).roll((-self.shift, -self.shift), (1, 2))
        windows = grid.unflatten(1, (2, 4)).unflatten(3, (2, 4)).transpose(2, 3).reshape(len(x) * 4, 16, -1)
        mixed: Tensor = self.attention(windows)
        back = mixed.view(len(x), 2, 2, 4, 4, -1).transpose(2, 3).reshape(len(x), 8, 8, -1)
        return back.roll((self.shift, self.shift), (1, 2)).flatten(1, 2)


class _Merge(nn.Module):
    """Four neighboring tokens become one of twice the width."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2 * _WIDTH)
        self.reduction = nn.Linear(2 * _WIDTH, _WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        grid = x.view(len(x), 4, 2, 4, 2, -1).transpose(2, 3)
        return self.reduction(self.norm(grid.reshape(len(x), 16, -1)))


def swin(settings: Settings) -> nn.Module:
    """Two stages: 64 tokens in windows, then 16 of twice the width."""
    half = _WIDTH // 2
    first = [
        transformer_block(half, _Windows(2 * (number % 2)), FeedForward(half, 4 * half), after=settings.moved)
        for number in range(2 * settings.depth)
    ]
    second = [
        transformer_block(_WIDTH, Attention(_WIDTH, 4), FeedForward(_WIDTH, 4 * _WIDTH), after=settings.moved)
        for _ in range(2 * settings.depth)
    ]
    stem = nn.Sequential(Patches(3, half, 2), nn.LayerNorm(half))
    neck = nn.Sequential(nn.LayerNorm(_WIDTH), Mean())
    return normal_(Stack(stem, [*first, _Merge(), *second], neck, nn.Linear(_WIDTH, CLASSES)))


class _OverTokens(nn.Module):
    """A feed-forward network that mixes tokens."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.mix = FeedForward(_TOKENS, hidden)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.mix(x.mT)
        return mixed.mT


def mixer(settings: Settings) -> nn.Module:
    """MLP-Mixer: tokens and channels are mixed in turn."""
    width = 64
    blocks = [
        transformer_block(width, _OverTokens(32), FeedForward(width, 4 * width), after=settings.moved)
        for _ in range(_BLOCKS * settings.depth)
    ]
    neck = nn.Sequential(nn.LayerNorm(width), Mean())
    return Stack(Patches(3, width, _PATCH), blocks, neck, nn.Linear(width, CLASSES))


class _SpatialGate(nn.Module):
    """The unit of gMLP: half of the channels, mixed over tokens, gates the other half; it begins as the identity."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.expand = nn.Linear(width, hidden)
        self.act = nn.GELU()
        self.norm = nn.LayerNorm(hidden // 2)
        self.spatial = nn.Linear(_TOKENS, _TOKENS)
        nn.init.normal_(self.spatial.weight, std=1e-4)
        nn.init.ones_(self.spatial.bias)
        self.contract = nn.Linear(hidden // 2, width)

    def forward(self, x: Tensor) -> Tensor:
        kept, gate = self.act(self.expand(x)).chunk(2, dim=-1)
        gate = self.spatial(self.norm(gate).mT).mT
        return self.contract(kept * gate)


def gmlp(settings: Settings) -> nn.Module:
    """GMLP: no attention, gates over tokens."""
    blocks = [
        Residual(_SpatialGate(_WIDTH, 4 * _WIDTH), _WIDTH, nn.LayerNorm(_WIDTH), after=settings.moved)
        for _ in range(_BLOCKS * settings.depth)
    ]
    neck = nn.Sequential(nn.LayerNorm(_WIDTH), Mean())
    return Stack(Patches(1, _WIDTH, _PATCH), blocks, neck, nn.Linear(_WIDTH, CLASSES))


VISION = (
    Family("vit", "transformer", "cifar10", vit, "vit", movable=True, own_weights=True, deepest=8),
    Family("cait", "transformer", "cifar10", cait, "vit", movable=True, own_weights=True),
    Family("swin", "transformer", "cifar10", swin, movable=True, own_weights=True),
    Family("mixer", "mixer", "cifar10", mixer, movable=True, deepest=8),
    Family("gmlp", "mixer", "fashion-mnist", gmlp, movable=True),
)
