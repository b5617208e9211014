"""The deep AlexNet of Table 3 and Figure 7."""

from collections import OrderedDict

import torch
from torch import nn

from orthoscope.init import Scheme, initialize_
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
    """AlexNet with `depth` convolutions of kernel 3 (the paper: 20 and 80) and three linear layers, for 32x32 images.

    Table 3 leaves details open, which are chosen as follows:

    * Linear(1024, 4096) needs 256 maps of 2x2, but three poolings take 32x32 to 4x4. So the first convolution has
      stride 2, as in AlexNet, where it is the only strided one. All convolutions are padded by 1;
      32 → 16 (stride) → 8 → 4 (pooling) → 2 (last pooling).
    * Row 3 prints one ReLU after two convolutions; there is none between them.
    * Layers have biases, PyTorch's default; every scheme except "torch" sets them to 0.

    Args:
        depth: Number of convolutions, at least 4.
        in_channels: Channels of the images.
        out_features: Outputs of the head.
        dropout: Probability of dropout before the first two linear layers.
        shrink: Divides every number of channels and units except inputs and outputs; a power of 2 up to 64.
        init: A scheme of `init.SCHEMES`, or a function `(layer, gain, generator)`.
        weight_gain: Multiplies the weights.
        generator: Source of random numbers; None for torch's global one.
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
    initialize_(network, init, weight_gain, generator)
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
