"""A product of Householder reflections as FastH computes it (Mathiasen et al., 2020), written anew for comparison.

Reflections are joined in blocks in WY form; going back, the gradient is carried over whole blocks first, then all
blocks are taken apart side by side, one reflection of each at a time. Applied to the identity it produces the matrix.
"""

from typing import Any

import torch
from torch import Tensor

_BLOCK = 32


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, start: Tensor) -> Tensor:
        size = vectors.shape[0]
        unit = (vectors / vectors.norm(dim=0)).reshape(size, -1, _BLOCK).transpose(0, 1).contiguous()
        w = torch.empty_like(unit)
        w[:, :, 0] = 2 * unit[:, :, 0]
        for j in range(1, _BLOCK):
            v = unit[:, :, j : j + 1]
            w[:, :, j : j + 1] = 2 * (v - w[:, :, :j] @ (unit[:, :, :j].mT @ v))
        states = [start]
        for block in reversed(range(len(unit))):
            states.append(states[-1] - w[block] @ (unit[block].mT @ states[-1]))
        ctx.save_for_backward(vectors, unit, w, torch.stack(states[1:][::-1]))
        return states[-1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        vectors, unit, w, states = ctx.saved_tensors
        gradients = [gradient]
        for block in range(len(unit) - 1):
            gradients.append(gradients[-1] - unit[block] @ (w[block].mT @ gradients[-1]))
        g, a = torch.stack(gradients), states.clone()
        found = torch.empty_like(unit)
        for j in range(_BLOCK):
            v = unit[:, :, j : j + 1]
            a -= 2 * v @ (v.mT @ a)
            va, vg = v.mT @ a, v.mT @ g
            found[:, :, j : j + 1] = -2 * (g @ va.mT + a @ vg.mT)
            g -= 2 * v @ vg
        toward_unit = found.transpose(0, 1).reshape(vectors.shape)
        lengths = vectors.norm(dim=0)
        directions = vectors / lengths
        return (toward_unit - directions * (directions * toward_unit).sum(0)) / lengths, None


def fasth_product(vectors: Tensor) -> Tensor:
    """$H_1 \\cdots H_m$ from the columns of `vectors` `(n, m)`, m a multiple of the block size."""
    return _Product.apply(vectors, torch.eye(len(vectors), dtype=vectors.dtype))
