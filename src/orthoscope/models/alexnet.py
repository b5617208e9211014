"""AlexNet with many more convolutions, the network of daneshmand2021, Table 3 and Figure 7."""

from collections import OrderedDict

import torch
from torch import nn

from orthoscope.init import Scheme, initialise_
from orthoscope.models.blocks import convolution, linear

# Convolutions of the table outside its repeated row: 3→64, 64→192, 192→256, 256→256.
_FIXED_CONVOLUTIONS = 4


def alexnet_like(
    *,
    depth: int = 20,
    in_channels: int = 3,
    out_features: int = 10,
    dropout: float = 0.5,
    shrink: int = 1,
    init: str | Scheme = "xavier",
    weight_gain: float = 1.0,
    generator: torch.Generator | None = None,
) -> nn.Sequential:
    """`depth` convolutions of kernel 3 (the paper: 20 and 80) and three linear layers, for 32x32 images.

    How Table 3 is read where it is silent:

    * Linear(1024, 4096) needs 256 maps of 2x2. Three poolings take 32x32 to 4x4 only, so one more halving is
      hidden in the table: the first convolution has stride 2, as AlexNet's is the only strided one.
      All convolutions are padded by 1; 32 → 16 (stride) → 8 → 4 (pooling) → 2 (last pooling).
    * Row 3 prints one ReLU after two convolutions; there is none between them here either.
    * Pooling comes before ReLU, as printed (the two commute); the ReLU after the last pooling does nothing.
    * Layers have biases, as torch gives them; every scheme but "torch" starts them at 0.

    `shrink` divides every number of channels and units but the inputs and outputs: a network for small machines.
    """
    if not isinstance(depth, int) or depth < _FIXED_CONVOLUTIONS:
        raise ValueError(
            f"depth is {depth!r}, but Table 3 has {_FIXED_CONVOLUTIONS} convolutions that are not repeated: "
            "give a whole number of at least that (the paper: 20 or 80)"
        )
    if shrink not in (1, 2, 4, 8, 16, 32, 64):
        raise ValueError(f"shrink is {shrink!r}, but must divide 64, 192, 256 and 4096: choose a power of 2 up to 64")
    network = nn.Sequential(
        OrderedDict(
            features=_features(in_channels, depth - _FIXED_CONVOLUTIONS, shrink),
            flatten=nn.Flatten(),
            classifier=nn.Sequential(
                nn.Dropout(dropout),
                linear(256 // shrink * 2 * 2, 4096 // shrink, bias=True),
                nn.ReLU(),
                nn.Dropout(dropout),
                linear(4096 // shrink, 4096 // shrink, bias=True),
                nn.ReLU(),
                linear(4096 // shrink, out_features, bias=True),
            ),
        )
    )
    initialise_(network, init, weight_gain, generator)
    return network


def _features(in_channels: int, repeats: int, shrink: int) -> nn.Sequential:
    first, second, rest = (channels // shrink for channels in (64, 192, 256))
    layers: list[nn.Module] = [
        convolution(in_channels, first, kernel=3, bias=True, stride=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        convolution(first, second, kernel=3, bias=True),
        nn.MaxPool2d(2),
        nn.ReLU(),
        convolution(second, rest, kernel=3, bias=True),
        convolution(rest, rest, kernel=3, bias=True),
        nn.ReLU(),
    ]
    for _ in range(repeats):
        layers += [convolution(rest, rest, kernel=3, bias=True), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.ReLU())
