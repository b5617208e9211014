"""The plain convolutional network: equal layers on maps that keep their size (daneshmand2021, Figure 5)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.init import Scheme, initialise_
from orthoscope.models.activations import Activation
from orthoscope.models.blocks import ResidualBlock, block, convolution, linear, require_positive
from orthoscope.models.normalisations import map_norm


class ConvNet(nn.Module):
    """`depth` hidden convolutions with `channels` channels, zero-padded; then a mean over the map and a head.

    The defaults are those of the figure: 30 layers, 100 channels, kernel 3, ReLU. The other options are
    those of `MLP`; modules are named `layers.7.conv`, `layers.7.norm`, `layers.7.activation`, `head`.
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
        initialise_(self, init, weight_gain, generator)

    def forward(self, images: Float[Tensor, "samples channels height width"]) -> Float[Tensor, "samples *out"]:
        maps: Tensor = self.layers(images)
        return maps if self.head is None else self.head(maps.mean((2, 3)))
