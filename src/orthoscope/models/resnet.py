r"""The residual networks of li2023 (Residual Alignment), $h_{i+1} = h_i + F(h_i)$, pre-activation, in three types."""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations import Activation, activation
from orthoscope.init import Scheme, initialize_
from orthoscope.models.blocks import ResidualBlock, convolution, linear, map_norm, require_positive, vector_norm

# ResNet34: 16 blocks of two layers, a stem and a head; in type 3 spread over four stages.
_RESNET34_STAGES = (3, 4, 6, 3)


class ResNet(nn.Module):
    """Pre-activation residual network of type 1 (fully connected), 2 (convolutional) or 3 (with down-sampling).

    Type 2 has one width and resolution. A later stage of type 3 begins with a block that halves the map and doubles the
    width, with a 1x1 convolution as its shortcut. Every block is a `ResidualBlock` in `layers`, whose `branch` is norm,
    activation, weight, norm, activation, weight. Norms have learnable scale and shift.

    Args:
        kind: The type.
        blocks: Number of residual blocks (types 1 and 2), or of every stage (type 3); by default those of ResNet34.
        width: Units or channels of the first stage.
        in_channels: Channels of the images.
        image_size: Height and width of the images, which type 1 flattens.
        num_classes: Outputs of the head.
        skip: Whether blocks have skip connections.
        activation: As for `MLP`.
        norm: A name of `models.blocks.VECTOR_NORMS`.
        init: As for `MLP`.
        weight_gain: As for `MLP`.
        generator: Source of random numbers; None for torch's global one.
    """

    def __init__(
        self,
        *,
        kind: int = 1,
        blocks: int | Sequence[int] | None = None,
        width: int = 64,
        in_channels: int = 3,
        image_size: int = 32,
        num_classes: int = 10,
        skip: bool = True,
        activation: Activation = "relu",
        norm: str = "batch",
        init: str | Scheme = "he",
        weight_gain: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_positive(width=width, in_channels=in_channels, image_size=image_size)
        self.kind = kind
        stages = _stages(kind, blocks)
        in_features = in_channels * image_size**2 if kind == 1 else in_channels
        self.stem = _weight(kind, in_features, width)
        self.layers = nn.Sequential()
        for stage, length in enumerate(stages):
            wide = width * 2**stage
            for index in range(length):
                narrows = stage > 0 and index == 0
                self.layers.append(_residual(kind, wide, narrows, norm, activation, skip))
        last = width * 2 ** (len(stages) - 1)
        self.final = nn.Sequential(_norm_activation(kind, last, norm, activation, ""))
        self.head = linear(last, num_classes, bias=True)
        initialize_(self, init, weight_gain, generator)

    def forward(self, images: Float[Tensor, "samples *shape"]) -> Float[Tensor, "samples classes"]:
        """Class scores of a batch of images."""
        inputs = images.flatten(start_dim=1) if self.kind == 1 else images
        if isinstance(self.stem, nn.Linear) and inputs.shape[-1] != self.stem.in_features:
            raise ValueError(
                f"this ResNet takes samples of {self.stem.in_features} features, got a batch of shape "
                f"{tuple(images.shape)}: build it with the right in_channels and image_size"
            )
        hidden: Tensor = self.final(self.layers(self.stem(inputs)))
        logits: Tensor = self.head(hidden if self.kind == 1 else hidden.mean((2, 3)))
        return logits


def _stages(kind: int, blocks: int | Sequence[int] | None) -> tuple[int, ...]:
    if kind not in (1, 2, 3):
        raise ValueError(
            f"unknown kind {kind!r}: choose 1 (fully connected), 2 (convolutional) or 3 (with down-sampling)"
        )
    if kind == 3:
        stages = _RESNET34_STAGES if blocks is None else blocks
        if isinstance(stages, int):
            raise ValueError(f"type 3 has stages: give the blocks of each, as blocks={_RESNET34_STAGES}, not {blocks}")
        require_positive(**{f"stage {number}": length for number, length in enumerate(stages)})
        return tuple(stages)
    length = sum(_RESNET34_STAGES) if blocks is None else blocks
    if not isinstance(length, int):
        raise ValueError(f"type {kind} has no stages: give one number of blocks, not {blocks}")
    require_positive(blocks=length)
    return (length,)


def _weight(kind: int, fan_in: int, fan_out: int, stride: int = 1) -> nn.Linear | nn.Conv2d:
    if kind == 1:
        return linear(fan_in, fan_out, bias=False)
    return convolution(fan_in, fan_out, kernel=3, bias=False, stride=stride)


def _norm_activation(
    kind: int, features: int, norm: str, nonlinearity: Activation, suffix: str
) -> OrderedDict[str, nn.Module]:
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    if norm != "none":
        make = vector_norm if kind == 1 else map_norm
        parts[f"norm{suffix}"] = make(norm, features, affine=True)
    parts[f"activation{suffix}"] = activation(nonlinearity)
    return parts


def _residual(kind: int, width: int, narrows: bool, norm: str, nonlinearity: Activation, skip: bool) -> ResidualBlock:
    """Two weight layers with a skip; with `narrows` the input has half the width and twice the resolution."""
    fan_in, stride = (width // 2, 2) if narrows else (width, 1)
    parts = _norm_activation(kind, fan_in, norm, nonlinearity, "1")
    parts["weight1"] = _weight(kind, fan_in, width, stride)
    parts |= _norm_activation(kind, width, norm, nonlinearity, "2")
    parts["weight2"] = _weight(kind, width, width)
    shortcut = convolution(fan_in, width, kernel=1, bias=False, stride=stride) if narrows and skip else None
    return ResidualBlock(nn.Sequential(parts), skip=skip, shortcut=shortcut)
