"""Sums of matrices with products and adjoints, for one matrix or a stack, that keep the layout in memory."""

import torch
from torch import Tensor


def add_product_(target: Tensor, left: Tensor, right: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    r"""$T \leftarrow \beta T + \alpha AB$ in place; `target` is `(m, n)` or `(batch, m, n)`, by rows or by columns."""
    add = target.addmm_ if target.ndim == 2 else target.baddbmm_
    return add(left, right, alpha=alpha, beta=beta)


def plus_adjoint(square: Tensor) -> Tensor:
    r"""$S + S^\mathsf{H}$."""
    # Copied first: a sum that reads one term by rows and the other by columns takes three times as long.
    return square.mH.clone(memory_format=torch.contiguous_format).add_(square)


def skew_part(square: Tensor, scale: float = 1.0) -> Tensor:
    r"""$\tfrac{s}{2}(S - S^\mathsf{H})$ with the factor $s$."""
    return square.mH.clone(memory_format=torch.contiguous_format).sub_(square).mul_(-scale / 2)
