r"""Singular triplets of an operator: all of them from its matrix where that is small, else the largest by products."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.svd import svd
from orthoscope.linalg.top_triplets import block_width, top_triplets
from orthoscope.probe.jacobians.operator import JacobianOperator

# Dimensions up to which a matrix is formed: in float64 its SVD then takes well under a second.
LARGEST_DENSE = 768
TOP = 11  # one more than the usual number of classes, which the rank is compared with
_ENERGY_PROBES = 16


class Spectrum(NamedTuple):
    """Triplets, largest first, with what is known of the rest."""

    values: Float[Tensor, "samples count"]  # in float64
    left: Float[Tensor, "samples outputs count"]
    right: Float[Tensor, "samples inputs count"]
    errors: Float[Tensor, "samples count"]  # each value is that near to a true one; 0 where the matrix was formed
    energy: Float[Tensor, "samples"]  # the sum of all squared singular values
    energy_error: Float[Tensor, "samples"]  # standard error; 0 where the matrix was formed


def spectrum(operator: JacobianOperator, top: int | None, tolerance: float, generator: torch.Generator) -> Spectrum:
    """All triplets, or the `top` largest; the matrix is formed if its smaller side is at most `LARGEST_DENSE`."""
    smaller = min(operator.shape)
    if max(operator.shape) <= LARGEST_DENSE or smaller <= (top or TOP) + 1:
        return _dense(operator, smaller if top is None else min(top, smaller))
    return _by_products(operator, min(top or TOP, smaller), tolerance, generator)


def _dense(operator: JacobianOperator, count: int) -> Spectrum:
    matrix = operator.dense().double()
    left, values, right = svd(matrix)
    values = values.abs()  # LAPACK may call zero minus zero
    energy = values.square().sum(-1)
    nothing = torch.zeros_like(energy)
    kept = values[..., :count]
    return Spectrum(kept, left[..., :count], right.mT[..., :count], torch.zeros_like(kept), energy, nothing)


def _by_products(operator: JacobianOperator, count: int, tolerance: float, generator: torch.Generator) -> Spectrum:
    def gaussian(columns: int) -> Tensor:
        # Drawn on the CPU: the same on every device.
        drawn = torch.randn(operator.samples, operator.inputs, columns, generator=generator, dtype=operator.dtype)
        return drawn.to(operator.device)

    width = min(block_width(count), *operator.shape)
    found = top_triplets(operator.multiply, operator.multiply_transposed, gaussian(width), count, tolerance=tolerance)
    known = found.values.square().sum(-1)
    # Hutch++: what the triplets do not explain, from random vectors orthogonal to them.
    probes = gaussian(_ENERGY_PROBES)
    probes = probes - found.right @ (found.right.mT @ probes)
    rest = operator.multiply(probes).double().square().sum(-2)
    error = rest.std(-1) / _ENERGY_PROBES**0.5
    return Spectrum(found.values.abs(), found.left, found.right, found.errors, known + rest.mean(-1), error)
