"""A network of the calibration as plain data, and how it is built."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from orthoscope.init import initialize_, iterative_, lsuv_
from orthoscope.models import MLP, ConvNet, ResNet
from orthoscope.models.blocks import ResidualBlock, linear
from orthoscope.models.transformer import TransformerBlock

Kind = Literal["mlp", "convnet", "resnet", "transformer"]
PATCH = 2  # pixels along a side of what a Transformer reads as one token


@dataclass(frozen=True)
class Network:
    """A network by its arguments; those that a kind does not have are left at their defaults."""

    kind: Kind
    depth: int
    width: int
    activation: str = "relu"
    slope: float = 0.01  # of leaky_relu below zero
    gain: float = 1.0  # of the activation
    norm: str = "none"  # of a Transformer: pre or post
    order: str = "norm-activation"
    residual: bool = False
    residual_scale: float = 1.0
    init: str = "he"  # a scheme; or lsuv, whitening, zero: see `build`
    weight_gain: float = 1.0

    @property
    def family(self) -> str:
        """The unit that is held out: kind, activation, normalization and skips, whatever depth, width and weights."""
        skips = "residual" if self.residual or self.kind in ("resnet", "transformer") else "plain"
        norm = self.norm if self.order == "norm-activation" else f"{self.norm} after"
        return f"{self.kind} {self.activation} {norm} {skips}"


def build(network: Network, images: Tensor, generator: torch.Generator) -> nn.Module:
    """Build the network for `images` (samples, channels, height, width) and ten classes.

    Beside the schemes of `orthoscope.init`, `lsuv` and `whitening` (iterative orthogonalization without scaling for
    gradients) depend on the images, and `zero` zero-initializes the last weight of every residual branch.
    """
    scheme = network.init if network.init not in ("lsuv", "whitening", "zero") else "he"
    model = _BUILDERS[network.kind](network, images, scheme, generator)
    if network.init == "lsuv":
        lsuv_(model, images, start=None)
    elif network.init == "whitening":
        iterative_(model, images, keep=("head",), generator=generator)
    elif network.init == "zero":
        _zero_branches(model)
    return model


def _mlp(network: Network, images: Tensor, scheme: str, generator: torch.Generator) -> nn.Module:
    return MLP(
        depth=network.depth,
        width=network.width,
        in_features=images[0].numel(),
        activation=_activation(network),
        norm=network.norm,
        order=network.order,
        residual=network.residual,
        residual_scale=network.residual_scale,
        init=scheme,
        gain=network.gain,
        weight_gain=network.weight_gain,
        bias=True,
        generator=generator,
    )


def _convnet(network: Network, images: Tensor, scheme: str, generator: torch.Generator) -> nn.Module:
    return ConvNet(
        depth=network.depth,
        channels=network.width,
        in_channels=images.shape[1],
        activation=_activation(network),
        norm=network.norm,
        order=network.order,
        residual=network.residual,
        residual_scale=network.residual_scale,
        init=scheme,
        gain=network.gain,
        weight_gain=network.weight_gain,
        bias=True,
        generator=generator,
    )


def _resnet(network: Network, images: Tensor, scheme: str, generator: torch.Generator) -> nn.Module:
    return ResNet(
        kind=1,
        blocks=network.depth // 2,
        width=network.width,
        in_channels=images.shape[1],
        image_size=images.shape[-1],
        activation=_activation(network),
        norm=network.norm,
        init=scheme,
        weight_gain=network.weight_gain,
        generator=generator,
    )


def _transformer(network: Network, images: Tensor, scheme: str, generator: torch.Generator) -> nn.Module:
    model = ImageTransformer(network, images)
    initialize_(model, scheme, network.weight_gain, generator)
    return model


_BUILDERS = {"mlp": _mlp, "convnet": _convnet, "resnet": _resnet, "transformer": _transformer}


class ImageTransformer(nn.Module):
    """Patches as tokens, `depth` blocks without a mask, the mean over tokens, a linear head."""

    def __init__(self, network: Network, images: Tensor) -> None:
        super().__init__()
        channels, height, width = images.shape[1:]
        self.patches = linear(channels * PATCH**2, network.width, bias=True)
        self.positions = nn.Parameter(torch.zeros((height // PATCH) * (width // PATCH), network.width))
        self.layers = nn.Sequential(
            *(
                TransformerBlock(network.width, 4, _activation(network), network.norm, causal=False)
                for _ in range(network.depth)
            )
        )
        self.final_norm = nn.LayerNorm(network.width) if network.norm == "pre" else nn.Identity()
        self.head = linear(network.width, 10, bias=True)

    def forward(self, images: Tensor) -> Tensor:
        patches = nn.functional.unfold(images, PATCH, stride=PATCH).transpose(1, 2)
        stream = self.layers(self.patches(patches) + self.positions)
        logits: Tensor = self.head(self.final_norm(stream).mean(1))
        return logits


def _activation(network: Network) -> str | nn.Module:
    return nn.LeakyReLU(network.slope) if network.activation == "leaky_relu" else network.activation


@torch.no_grad()
def _zero_branches(model: nn.Module) -> None:
    for block in model.modules():
        if isinstance(block, ResidualBlock):
            last = [part for part in block.branch.modules() if isinstance(part, nn.Linear | nn.Conv2d)][-1]
            last.weight.zero_()
