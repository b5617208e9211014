"""A triangular factor of the Gram matrix of samples: what is invariant under rotation, at a fraction of the size."""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.precision import float32_products_are_exact, in_full_precision, to_double

# Elements converted at once, a megabyte in float64: a wide layer is never copied whole.
BLOCK_ELEMENTS = 1 << 17

# Up to this many units per sample, Householder reflections are cheaper than a Cholesky factor and its check.
NARROW = 8

# Columns multiplied at once in float32; the products are summed in float64, so rounding does not grow with the width.
_PANEL = 512


@in_full_precision
def gram_factor(
    hidden: Float[Tensor, "*batch samples units"], *, tolerance: float = 1e-10
) -> Float[Tensor, "*batch samples samples"]:
    r"""The lower triangular $F$ with $FF^\top = HH^\top$, in float64.

    $$ H^\top = QR, \qquad F = R^\top $$

    Lengths, angles and singular values of the rows of $F$ are those of $H$, so any rotation-invariant metric may be
    computed from it. With fewer units than samples the missing columns are zero. Wide inputs are reduced in blocks of
    columns, so that memory does not grow with the width.

    Forming $HH^\top$ is cheaper than a QR factorization, but squares the condition number: with unit roundoff
    $\epsilon$ it changes singular values by about $\epsilon \|F\|_F^2 \|F^{-1}\|_F^2 / n$, relative to their size.
    Wide inputs are therefore factorized by Cholesky's method where that stays below `tolerance`, from float32 products
    if possible, else from float64 ones, and by QR elsewhere.

    Args:
        hidden: Samples by rows.
        tolerance: Relative error of the singular values that is accepted.
    """
    samples, units = hidden.shape[-2:]
    if units > NARROW * samples and not hidden.requires_grad:
        factor = _by_cholesky(hidden, tolerance)
        if factor is not None:
            return factor
    factor = None
    for block in _blocks(hidden):
        columns = to_double(block)
        joined = columns if factor is None else torch.cat([factor, columns], dim=-1)
        # Q is only computed if a gradient needs it.
        factor = torch.linalg.qr(joined.mT, mode="reduced" if joined.requires_grad else "r").R.mT
    assert factor is not None, "a representation has at least one unit"
    missing = samples - factor.shape[-1]
    return torch.nn.functional.pad(factor, (0, missing)) if missing else factor


def triangle_condition(factor: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch"]:
    r"""$\|F\|_F \|F^{-1}\|_F$ of a lower triangle: its condition number, at most a factor `size` too large.

    Infinite for a singular triangle, nan for one that is zero or not finite.

    Args:
        factor: Lower triangles.
    """
    norm = torch.linalg.matrix_norm(factor)
    condition = norm * torch.linalg.matrix_norm(_inverse(factor))
    singular = (factor.diagonal(dim1=-2, dim2=-1) == 0).any(-1) | ~condition.isfinite()
    undefined = (norm == 0) | ~norm.isfinite()
    return torch.where(undefined, torch.nan, torch.where(singular, torch.inf, condition))


def contrasts(hidden: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch degrees units"]:
    r"""The batch without its mean, as `samples - 1` orthonormal contrasts (Helmert's basis $Q$ of $\mathbf 1^\perp$).

    $$ C = QH, \qquad q_{k} = \frac{(\overbrace{1,\dots,1}^{k}, -k, 0,\dots,0)}{\sqrt{k(k+1)}}, \qquad
       C^\top C = \sum_i (h_i-\bar h)(h_i-\bar h)^\top $$

    Subtracting the mean leaves one direction in sample space that is exactly zero. Contrasts omit it, so a centered
    batch can have full rank and an orthogonality gap of 0.

    Args:
        hidden: Samples by rows, at least two.
    """
    samples = hidden.shape[-2]
    order = torch.arange(1, samples, dtype=torch.float64, device=hidden.device)
    basis = torch.tril(torch.ones(samples - 1, samples, dtype=torch.float64, device=hidden.device))
    basis[:, 1:] -= torch.diag(order)
    basis /= (order * (order + 1)).sqrt().unsqueeze(-1)
    return basis @ to_double(hidden)


def _by_cholesky(hidden: Float[Tensor, "*batch samples units"], tolerance: float) -> Tensor | None:
    """The factor from the Gram matrix, None where squaring would change singular values by more than `tolerance`."""
    samples, units = hidden.shape[-2:]
    # Even orthonormal samples have ‖F‖²‖F⁻¹‖²/n = n.
    single = (
        torch.finfo(torch.float32).eps * samples <= tolerance
        and hidden.element_size() <= 4
        and float32_products_are_exact()
    )
    for dtype in (torch.float32, torch.float64) if single else (torch.float64,):
        rounding = torch.finfo(dtype)
        gram = _gram_in_float32(hidden) if dtype is torch.float32 else _gram_in_double(hidden)
        factor, failed = torch.linalg.cholesky_ex(gram)
        lengths = gram.diagonal(dim1=-2, dim2=-1)
        # ‖F‖² is the trace of the Gram matrix. The condition is not read off the diagonal of F: that can be all ones in
        # a triangle of any condition number (Kahan).
        error = lengths.sum(-1) * _inverse(factor).square().sum((-2, -1)) * (rounding.eps / samples)
        # Squares that underflow are lost without a trace.
        accurate = (error < tolerance) & (lengths.amin(-1) > units * rounding.tiny / rounding.eps) & (failed == 0)
        if bool(accurate.all()):  # False for nan
            return factor
        if not torch.count_nonzero(hidden):
            return torch.zeros_like(factor)
    return None


def _gram_in_float32(hidden: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch samples samples"]:
    """Products of panels of columns in float32, summed in float64; half precision is converted exactly."""
    gram = hidden.new_zeros((*hidden.shape[:-1], hidden.shape[-2]), dtype=torch.float64)
    for block in (hidden,) if hidden.dtype is torch.float32 else _blocks(hidden):
        columns = block.float()
        start = 0
        if columns.ndim == 2:  # all panels in one batched product, without a copy; panels of a stack would be copied
            start = columns.shape[-1] // _PANEL * _PANEL
            panels = columns[:, :start].unflatten(-1, (-1, _PANEL)).transpose(0, 1)
            gram += (panels @ panels.mT).sum(0, dtype=torch.float64)
        for panel in columns[..., start:].split(_PANEL, dim=-1) if start < columns.shape[-1] else ():
            gram += panel @ panel.mT
    return gram


def _gram_in_double(hidden: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch samples samples"]:
    return sum(columns @ columns.mT for columns in map(to_double, _blocks(hidden)))  # type: ignore[return-value]


def _inverse(factor: Float[Tensor, "*batch size size"]) -> Float[Tensor, "*batch size size"]:
    identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device).expand_as(factor)
    return torch.linalg.solve_triangular(factor, identity, upper=False)


def _blocks(hidden: Float[Tensor, "*batch samples units"]) -> Iterator[Tensor]:
    """Blocks of columns, small enough to be converted."""
    samples, units = hidden.shape[-2:]
    width = max(samples, BLOCK_ELEMENTS // max(1, hidden[..., :1].numel()))
    for start in range(0, units, width):
        yield hidden[..., start : start + width]


def singular_values(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rank"]:
    """All min(rows, columns) singular values, largest first, in float64.

    A matrix more than twice as long as wide is first reduced to its `gram_factor`, which has the same values.

    Args:
        matrix: One matrix, or a batch of them.
    """
    short = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    return torch.linalg.svdvals(gram_factor(short) if short.shape[-1] > 2 * short.shape[-2] else to_double(short))


def gram_singular_values(gram: Float[Tensor, "*batch samples samples"]) -> Float[Tensor, "*batch samples"]:
    r"""Singular values of $H$ from $HH^\top$, largest first: half the cost of `singular_values`.

    The absolute error is about $\sqrt\varepsilon\,\sigma_1$: right for entropies, ranks and norms, wrong for a
    determinant.

    Args:
        gram: $HH^\top$, symmetric.
    """
    return torch.linalg.eigvalsh(gram).flip(-1).clamp_min(0).sqrt()
