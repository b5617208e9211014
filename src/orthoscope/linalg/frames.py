"""Samples rotated into their own span: everything that is unchanged by rotation, at a fraction of the size."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

# Elements handled at once, a megabyte in float64: in cache, and a wide layer is never copied whole.
_BLOCK_ELEMENTS = 1 << 17

# From so many units a sample on, products are cheaper than reflections.
_WIDE = 8


def sample_frame(
    hidden: Float[Tensor, "*batch samples units"],
) -> Float[Tensor, "*batch samples samples"]:
    r"""The lower-triangular $F$ with $FF^\top = HH^\top$: the same samples in their own span, in float64.

    $$ H^\top = QR, \qquad F = R^\top $$

    Lengths, angles and singular values of $F$ are those of $H$, so any rotation-invariant metric may
    be computed on it. A QR factorisation instead of the Gram matrix keeps the condition number; wide
    inputs go through in blocks of columns (a tall-skinny QR, or a Cholesky factor where that is as
    good), so memory does not grow with the width.
    With fewer units than samples the missing columns are zero.
    """
    samples, units = hidden.shape[-2:]
    if units > _WIDE * samples and not hidden.requires_grad:
        frame = _frame_by_cholesky(hidden)
        if frame is not None:
            return frame
    frame = None
    for columns in _blocks(hidden):
        joined = columns if frame is None else torch.cat([frame, columns], dim=-1)
        # Q is only needed, and only computed, for a gradient.
        frame = torch.linalg.qr(joined.mT, mode="reduced" if joined.requires_grad else "r").R.mT
    assert frame is not None, "a representation has at least one unit"
    missing = samples - frame.shape[-1]
    return torch.nn.functional.pad(frame, (0, missing)) if missing else frame


def _frame_by_cholesky(hidden: Float[Tensor, "*batch samples units"]) -> Tensor | None:
    """The same triangle from the Gram matrix, at half the cost, or None where squaring would lose digits.

    Up to condition number 1e3 the Gram matrix still leaves ten digits of each singular value.
    """
    gram = sum(columns @ columns.mT for columns in _blocks(hidden))
    frame, failed = torch.linalg.cholesky_ex(gram)
    # Not the diagonal: it can be all ones in a triangle as ill-conditioned as one likes (Kahan).
    well_conditioned = _condition_bound(frame) < 1e3  # false for nan
    return frame if bool(well_conditioned.all()) and not bool(failed.any()) else None


def triangle_condition(frame: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    r"""$\|F\|_F \|F^{-1}\|_F$ of a lower triangle: its condition number, at most a factor `size` too large.

    Infinite for a singular triangle, nan for one that is zero or not finite.
    """
    norm = torch.linalg.matrix_norm(frame)
    condition = _condition_bound(frame)
    singular = (frame.diagonal(dim1=-2, dim2=-1) == 0).any(-1) | ~condition.isfinite()
    undefined = (norm == 0) | ~norm.isfinite()
    return torch.where(undefined, torch.nan, torch.where(singular, torch.inf, condition))


def _condition_bound(frame: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device).expand_as(frame)
    inverse = torch.linalg.solve_triangular(frame, identity, upper=False)
    return torch.linalg.matrix_norm(frame) * torch.linalg.matrix_norm(inverse)


def _blocks(hidden: Float[Tensor, "*batch samples units"]) -> Iterator[Tensor]:
    """Columns in float64, a block at a time."""
    samples, units = hidden.shape[-2:]
    width = max(samples, _BLOCK_ELEMENTS // max(1, hidden[..., :1].numel()))
    for start in range(0, units, width):
        yield hidden[..., start : start + width].double()


def contrasts(hidden: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch degrees units"]:
    r"""The batch without its mean, as `samples - 1` orthonormal contrasts (Helmert's basis $Q$ of $\mathbf 1^\perp$).

    $$ C = QH, \qquad q_{k} = \frac{(\overbrace{1,\dots,1}^{k}, -k, 0,\dots,0)}{\sqrt{k(k+1)}}, \qquad
       C^\top C = \sum_i (h_i-\bar h)(h_i-\bar h)^\top $$

    Subtracting the mean leaves one direction in sample space that is exactly empty; contrasts drop it,
    so a centred batch can be of full rank and an orthogonality gap of 0 can be reached.
    """
    samples = hidden.shape[-2]
    order = torch.arange(1, samples, dtype=torch.float64, device=hidden.device)
    basis = torch.tril(torch.ones(samples - 1, samples, dtype=torch.float64, device=hidden.device))
    basis[:, 1:] -= torch.diag(order)
    basis /= (order * (order + 1)).sqrt().unsqueeze(-1)
    return basis @ hidden.double()
