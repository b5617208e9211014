"""A triangular factor of the Gram matrix of samples: what is invariant under rotation, at a fraction of the size."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.precision import to_double

# Elements handled at once, a megabyte in float64: a wide layer is never copied whole.
_BLOCK_ELEMENTS = 1 << 17

# From this many units per sample on, a Cholesky factor is cheaper than Householder reflections.
_WIDE = 8

# Condition number up to which squaring leaves ten digits of every singular value.
_SQUARABLE = 1e3


def gram_factor(
    hidden: Float[Tensor, "*batch samples units"],
) -> Float[Tensor, "*batch samples samples"]:
    r"""The lower triangular $F$ with $FF^\top = HH^\top$, in float64.

    $$ H^\top = QR, \qquad F = R^\top $$

    Lengths, angles and singular values of the rows of $F$ are those of $H$, so any rotation-invariant metric may be
    computed from it. A QR factorization instead of the Gram matrix keeps the condition number; wide inputs are
    factorized in blocks of columns (tall-skinny QR, or Cholesky where that is as accurate), so that memory does not
    grow with the width. With fewer units than samples the missing columns are zero.
    """
    samples, units = hidden.shape[-2:]
    if units > _WIDE * samples and not hidden.requires_grad:
        factor = _by_cholesky(hidden)
        if factor is not None:
            return factor
    factor = None
    for columns in _blocks(hidden):
        joined = columns if factor is None else torch.cat([factor, columns], dim=-1)
        # Q is only computed if a gradient needs it.
        factor = torch.linalg.qr(joined.mT, mode="reduced" if joined.requires_grad else "r").R.mT
    assert factor is not None, "a representation has at least one unit"
    missing = samples - factor.shape[-1]
    return torch.nn.functional.pad(factor, (0, missing)) if missing else factor


def triangle_condition(factor: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    r"""$\|F\|_F \|F^{-1}\|_F$ of a lower triangle: its condition number, at most a factor `size` too large.

    Infinite for a singular triangle, nan for one that is zero or not finite.
    """
    norm = torch.linalg.matrix_norm(factor)
    condition = _condition_bound(factor)
    singular = (factor.diagonal(dim1=-2, dim2=-1) == 0).any(-1) | ~condition.isfinite()
    undefined = (norm == 0) | ~norm.isfinite()
    return torch.where(undefined, torch.nan, torch.where(singular, torch.inf, condition))


def contrasts(hidden: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch degrees units"]:
    r"""The batch without its mean, as `samples - 1` orthonormal contrasts (Helmert's basis $Q$ of $\mathbf 1^\perp$).

    $$ C = QH, \qquad q_{k} = \frac{(\overbrace{1,\dots,1}^{k}, -k, 0,\dots,0)}{\sqrt{k(k+1)}}, \qquad
       C^\top C = \sum_i (h_i-\bar h)(h_i-\bar h)^\top $$

    Subtracting the mean leaves one direction in sample space that is exactly zero. Contrasts omit it, so a centered
    batch can have full rank and an orthogonality gap of 0.
    """
    samples = hidden.shape[-2]
    order = torch.arange(1, samples, dtype=torch.float64, device=hidden.device)
    basis = torch.tril(torch.ones(samples - 1, samples, dtype=torch.float64, device=hidden.device))
    basis[:, 1:] -= torch.diag(order)
    basis /= (order * (order + 1)).sqrt().unsqueeze(-1)
    return basis @ to_double(hidden)


def _by_cholesky(hidden: Float[Tensor, "*batch samples units"]) -> Tensor | None:
    """The same triangle from the Gram matrix, at half the cost; None where squaring would lose digits."""
    gram = sum(columns @ columns.mT for columns in _blocks(hidden))
    factor, failed = torch.linalg.cholesky_ex(gram)
    # Not from the diagonal: it can be all ones in a triangle of any condition number (Kahan). False for nan.
    well_conditioned = _condition_bound(factor) < _SQUARABLE
    return factor if bool((well_conditioned & (failed == 0)).all()) else None


def _condition_bound(factor: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand_as(factor)
    inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
    return torch.linalg.matrix_norm(factor) * torch.linalg.matrix_norm(inverse)


def _blocks(hidden: Float[Tensor, "*batch samples units"]) -> Iterator[Tensor]:
    """Blocks of columns in float64."""
    samples, units = hidden.shape[-2:]
    width = max(samples, _BLOCK_ELEMENTS // max(1, hidden[..., :1].numel()))
    for start in range(0, units, width):
        yield to_double(hidden[..., start : start + width])
