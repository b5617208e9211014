"""Jacobians of branches written out by hand: autograd's dense ones, of functions that a test spells itself."""

from collections.abc import Callable

import torch
from torch import Tensor


def dense_jacobian(function: Callable[[Tensor], Tensor], point: Tensor) -> Tensor:
    """∂ function / ∂ point of one sample, (outputs, inputs), in float64."""
    matrix = torch.autograd.functional.jacobian(function, point.detach())
    return matrix.reshape(-1, point.numel()).double().detach()
