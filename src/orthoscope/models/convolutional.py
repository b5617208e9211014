"""A plain convolutional network, that of daneshmand2021, Figure 5."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations import Activation
from orthoscope.init import Scheme, initialize_
from orthoscope.models.blocks import ResidualBlock, block, convolution, linear, map_norm, require_positive


class ConvNet(nn.Module):
    """`depth` hidden convolutions of `channels` channels on maps of constant size, a mean over the map, and a head.

    The defaults are those of daneshmand2021, Figure 5. Modules are named `layers.7.conv`, `layers.7.norm`,
    `layers.7.activation`, `head`.

    Args:
        depth: Number of hidden convolutions.
        channels: Channels of a hidden layer.
        kernel: Taps of a kernel along each axis, odd.
        in_channels: Channels of the images.
        out_features: Outputs of the head; None for no head.
        activation: As for `MLP`.
        norm: A name of `models.blocks.MAP_NORMS`.
        order: As for `MLP`.
        residual: As for `MLP`.
        residual_scale: As for `MLP`.
        init: As for `MLP`.
        gain: As for `MLP`.
        weight_gain: As for `MLP`.
        bias: As for `MLP`.
        generator: Source of random numbers; None for torch's global one.
    """

    def __init__(
        self,
        *,
        depth: int = 30,
        channels: int = 100,
        kernel: int = 3,
        in_channels: int = 3,
        out_features: int | None = 10,
        activation: Activation = "relu",
        norm: str = "none",
        order: str = "norm-activation",
        residual: bool = False,
        residual_scale: float = 1.0,
        init: str | Scheme = "he",
        gain: float = 1.0,
        weight_gain: float = 1.0,
        bias: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_positive(depth=depth, channels=channels, in_channels=in_channels)
        self.layers = nn.Sequential()
        for fan_in in [in_channels] + [channels] * (depth - 1):
            weight = convolution(fan_in, channels, kernel, bias)
            hidden: nn.Module = block(weight, map_norm(norm, channels), activation, gain, order)
            if residual and fan_in == channels:
                hidden = ResidualBlock(hidden, scale=residual_scale)
            self.layers.append(hidden)
        self.head = None if out_features is None else linear(channels, out_features, bias)
        initialize_(self, init, weight_gain, generator)

    def forward(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples *out"]:
        """Class scores of a batch of images, or the last feature maps without a head."""
        maps: Tensor = self.layers(images)
        return maps if self.head is None else self.head(maps.mean((2, 3)))
