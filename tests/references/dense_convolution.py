"""The matrix of a convolution layer, by pushing every unit image through it."""

import math

import torch
from torch import Tensor, nn

CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def dense_matrix(conv: Convolution | nn.ConvTranspose2d, size: tuple[int, ...]) -> Tensor:
    """`(outputs, inputs)` for images of `size` pixels; the layer must have no bias."""
    assert conv.bias is None
    inputs = conv.in_channels * math.prod(size)
    images = torch.eye(inputs, dtype=conv.weight.dtype).reshape(inputs, conv.in_channels, *size)
    with torch.no_grad():
        return conv(images).flatten(1).mT


def circular(
    inputs: int, outputs: int, taps: int | tuple[int, ...], dimensions: int = 2, **options: object
) -> Convolution:
    """A float64 layer without bias whose padding keeps the size of periodic images, if it has no stride."""
    lengths = (taps,) * dimensions if isinstance(taps, int) else taps
    settings: dict[str, object] = {
        "padding": tuple(length // 2 for length in lengths),
        "padding_mode": "circular",
        "bias": False,
        "dtype": torch.float64,
        **options,
    }
    return CONVOLUTIONS[dimensions](inputs, outputs, lengths, **settings)  # type: ignore[arg-type]
