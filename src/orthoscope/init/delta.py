"""Convolutions that are one orthogonal matrix at the middle of the kernel (Xiao et al., 2018)."""

import math

import torch
from torch import nn
from torch.nn import functional

from orthoscope.init.orthogonal import orthogonal_
from orthoscope.init.weights import WeightLayer, fill_
from orthoscope.linalg import group_matrices, haar
from orthoscope.linalg.convolution import from_polyphase


def delta_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$K_t = \text{gain}\,Q$ at the middle tap $t$ and 0 at every other, $Q$ Haar; a linear layer is all of $Q$.

    With padding that keeps the size, $\|K * x\| = \text{gain}\,\|x\|$ for as many outputs as inputs or more; with fewer
    $K * K^\top = \text{gain}^2 I$, so that no norm grows by more than the gain and what is lost is random. With a
    stride $s$ the middle $s$ taps of each axis share $Q$ (all of them, if the kernel is shorter), since $s^d$ pixels of
    every channel are then inputs of one position; a dilation beside a stride is not seen. Each group is orthogonal on
    its own. A transposed convolution is the adjoint of such a kernel. In an even kernel the middle is the earlier tap,
    where `padding="same"` puts it.
    """
    if isinstance(layer, nn.Linear):
        orthogonal_(layer, gain, generator)
        return
    weight, shape, groups = layer.weight, layer.weight.shape, layer.groups
    # Read as the convolution it is, or is the adjoint of: then groups are along the first dimension either way.
    middle = [min(taps, stride) for taps, stride in zip(shape[2:], layer.stride, strict=True)]
    device = generator.device if generator is not None else weight.device
    rows, columns = shape[0] // groups, shape[1] * math.prod(middle)
    matrices = haar(rows, columns, groups, generator=generator, dtype=weight.dtype, device=device)
    kernel = from_polyphase(matrices.reshape(shape[0], columns, *[1] * len(middle)), middle)
    margins: list[int] = []
    for taps, used in zip(reversed(shape[2:]), reversed(middle), strict=True):
        margins += [(taps - used) // 2, taps - used - (taps - used) // 2]
    fill_(layer, gain * group_matrices(functional.pad(kernel, margins), groups, layer.transposed))
