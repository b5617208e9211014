"""Orthonormal frames as products of Householder reflections, in compact WY form, and the reflections of a frame."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.polar import require_orthonormal
from orthoscope.linalg.precision import full_precision, mapped_first, to_double

Frames = Float[Tensor, "*batch rows columns"]
Signs = Float[Tensor, "*batch columns"]

# Reflections in a panel. Wider panels waste work on triangles, narrower ones have slower products.
PANEL = 128


def householder_frame(vectors: Tensor, columns: int) -> Frames:
    r"""The first `columns` columns of $H_1 H_2 \cdots H_m$ for `vectors` $(\ldots, n, m)$, $m \le$ `columns` $\le n$.

    $$ H_i = I - 2\frac{v_iv_i^\top}{\|v_i\|^2}, \quad v_i = (0,\dots,0,1,x_{i+1,i},\dots,x_{n,i}), \qquad
       Q = E - V S^{-1} V_{1..k}^\top, \quad
       S = \operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V) $$

    Only the strictly lower part $x$ of `vectors` is read, so no reflection vector can be zero and weight decay cannot
    affect the diagonal. Zero vectors give $-1$ in the first $m$ places of the diagonal. Signs of the columns are not
    free: multiply by those of `householder_coordinates` to reach every frame.

    Args:
        vectors: $x$, in float32 or float64.
        columns: Number of columns $k$ of the frame.

    Raises:
        TypeError: If `vectors` are not float32 or float64.
        ValueError: If `columns` is not between $m$ and $n$.
    """
    _require_real(vectors)
    if vectors.ndim < 2 or not vectors.shape[-1] <= columns <= vectors.shape[-2]:
        raise ValueError(
            f"vectors of shape {tuple(vectors.shape)} cannot give {columns} columns: "
            "pass (..., n, m) with one reflection a column and m <= columns <= n"
        )
    with full_precision(vectors.device.type):
        frame, _, _ = _Reflections.apply(vectors.flatten(0, -3) if vectors.ndim > 2 else vectors[None], columns)
        return frame.reshape(*vectors.shape[:-1], columns)


def householder_coordinates(
    frame: Tensor, num_reflections: int | None = None
) -> tuple[Float[Tensor, "*batch rows reflections"], Signs]:
    r"""Vectors and signs $\pm1$ with `frame == householder_frame(vectors, columns) * signs`, to rounding.

    All of them (`num_reflections=None`: one a column) come from a QR factorization, whose triangle is
    $\operatorname{diag}(\pm 1)$ for an orthonormal frame; every vector then has $\|v\|^2 \le 2$. With fewer, $m$, the
    frame must be a product of $m$ reflections and signs. It is recognized as one if all its vectors have
    $\|v\|^2 < 2$, or all $\|v\|^2 > 2$, or if $2m < n$ and they are in general position; many long vectors are not
    determined to rounding by their product. Computed in float64, returned in the type of `frame`.

    Args:
        frame: Orthonormal columns, in float32 or float64.
        num_reflections: $m$; None for one reflection per column, which reaches every frame.

    Raises:
        TypeError: If `frame` is not float32 or float64.
        ValueError: If it is wide, not orthonormal, or no product of so few reflections.
    """
    _require_real(frame)
    if frame.ndim < 2 or frame.shape[-2] < frame.shape[-1]:
        raise ValueError(f"a frame has at least as many rows as columns, got {tuple(frame.shape)}: pass its transpose")
    columns = frame.shape[-1]
    count = columns if num_reflections is None else num_reflections
    if not 0 <= count <= columns:
        raise ValueError(f"num_reflections must be between 0 and the {columns} columns of the frame, got {count}")
    # The rounding of a frame that was computed in its own type is far below this, any other matrix far above.
    tolerance = torch.finfo(frame.dtype).eps ** 0.5
    require_orthonormal(frame, tolerance)
    precise = to_double(frame.detach())
    factors, scales = torch.geqrf(precise)
    # Where there is nothing to reflect LAPACK takes H = I; here it is I - 2eeᵀ, and the sign compensates for it.
    negative = (factors.diagonal(dim1=-2, dim2=-1) < 0) ^ (scales == 0)
    vectors, signs = factors.tril(-1), 1 - 2 * negative.to(precise.dtype)
    if count < columns:
        # Stricter, because vectors up to this size are dropped: the frame changes by as much.
        vectors, signs = _few_reflections(precise, vectors, signs, count, torch.finfo(frame.dtype).eps ** (2 / 3))
    return vectors.to(frame.dtype), signs.to(frame.dtype)


def _require_real(matrix: Tensor) -> None:
    if matrix.is_complex():
        raise TypeError(f"Householder reflections are real here, got {matrix.dtype}: use cayley or exponential")
    if matrix.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"Householder reflections take float32 or float64, got {matrix.dtype}: convert it first")


class _Reflections(torch.autograd.Function):
    """`_frame` with its derivatives; $M$ and the inverses are outputs because only outputs can be saved."""

    @staticmethod
    def forward(vectors: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        return _frame(vectors, columns, PANEL)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor, Tensor]) -> None:
        _, m, inverses = output
        ctx.mark_non_differentiable(m, inverses)
        ctx.save_for_backward(inputs[0], m, inverses)

    @staticmethod
    def backward(ctx: Any, frame_gradient: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        with full_precision(frame_gradient.device.type):
            return _ReflectionsGradient.apply(frame_gradient, *ctx.saved_tensors), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], vectors: Tensor, columns: int) -> tuple[Any, tuple[int, int, int]]:
        outputs = _Reflections.apply(mapped_first(vectors, in_dims[0], info.batch_size).flatten(0, 1), columns)
        return tuple(x.unflatten(0, (info.batch_size, -1)) for x in outputs), (0, 0, 0)


class _ReflectionsGradient(torch.autograd.Function):
    """`_gradient` as a function of the frame's gradient and the vectors, on which $M$ and the inverses depend."""

    @staticmethod
    def forward(frame_gradient: Tensor, vectors: Tensor, m: Tensor, inverses: Tensor) -> Tensor:
        return _gradient(frame_gradient, vectors, m, inverses)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, None, None]:
        pull = torch.func.vjp(_differentiable_gradient, *ctx.saved_tensors)[1]
        return *pull(cotangent), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        moved = (mapped_first(x, axis, info.batch_size).flatten(0, 1) for x, axis in zip(tensors, in_dims, strict=True))
        return _ReflectionsGradient.apply(*moved).unflatten(0, (info.batch_size, -1)), 0


def _unit_trapezoid(vectors: Tensor) -> Tensor:
    """The strictly lower part with ones on the diagonal: column i starts with i zeros and a one, so none is zero."""
    trapezoid = vectors.tril(-1)
    trapezoid.diagonal(dim1=-2, dim2=-1).fill_(1)
    return trapezoid


def _frame(
    vectors: Float[Tensor, "batch rows reflections"], columns: int, width: int
) -> tuple[
    Float[Tensor, "batch rows columns"],
    Float[Tensor, "batch reflections columns"],
    Float[Tensor, "batch reflections width"],
]:
    r"""First columns of $H_1 \cdots H_m$, from the last panel to the first, with what the gradient uses again.

    A panel $V_p$ of `width` reflections is $I - V_p T_p V_p^\top$ with $T_p = S_p^{-1}$,
    $S_p = \operatorname{striu}(V_p^\top V_p) + \tfrac12\operatorname{diag}(V_p^\top V_p)$:

    $$ Q \leftarrow E, \qquad M_p = T_p V_p^\top Q, \qquad Q \leftarrow Q - V_p M_p $$

    so that finally $Q = E - VM$, where $V$ is lower and $M$ upper trapezoidal. Panel $p$, which starts at column $s$,
    changes rows and columns from $s$ on. Returns $Q$, $M$ (unset below its panels' diagonal) and the stacked $T_p$.
    """
    v = _unit_trapezoid(vectors)
    batch, rows, count = v.shape
    q = v.new_zeros(batch, rows, columns)
    q.diagonal(dim1=-2, dim2=-1).fill_(1)
    m = v.new_empty(batch, count, columns)
    inverses = v.new_zeros(batch, count, min(width, count))
    for start in reversed(range(0, count, width)):
        stop = min(start + width, count)
        panel, size = v[:, start:, start:stop], stop - start
        inverse = inverses[:, start:stop, :size]
        inverse.copy_(_inverse_factor(panel))
        m_panel = m[:, start:stop, start:]
        if stop == count:  # Q is still E
            m_panel.baddbmm_(inverse, panel[:, : columns - start].mT, beta=0)
        else:  # Q is still E in the rows and columns of this panel
            m_panel[:, :, :size].baddbmm_(inverse, panel[:, :size].mT, beta=0)
            m_panel[:, :, size:].baddbmm_(inverse, panel[:, size:].mT @ q[:, stop:, stop:], beta=0)
        q[:, start:, start:].baddbmm_(panel, m_panel, alpha=-1)
    return q, m, inverses


def _inverse_factor(panel: Float[Tensor, "batch rows size"]) -> Float[Tensor, "batch size size"]:
    r"""$T = (\operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V))^{-1}$.

    In float64: for nearly parallel vectors either step in float32 would lose two digits of orthonormality.
    """
    precise = to_double(panel)
    factor = (precise.mT @ precise).triu_()
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    # A length that overflows in the panel's type would make its reflection vanish; inf * 0 makes it nan instead.
    diagonal.copy_(diagonal / 2 + diagonal.to(panel.dtype) * 0)
    identity = torch.eye(panel.shape[-1], dtype=factor.dtype, device=panel.device)
    # Solving from the right is faster in LAPACK's layout.
    return torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=True, left=False).to(panel.dtype)


def _gradient(
    frame_gradient: Float[Tensor, "batch rows columns"],
    vectors: Float[Tensor, "batch rows reflections"],
    m: Float[Tensor, "batch reflections columns"],
    inverses: Float[Tensor, "batch reflections width"],
) -> Float[Tensor, "batch rows reflections"]:
    r"""Gradient for the strictly lower part of `vectors`, from the first panel to the last.

    $$ Z_p = T_p^\top V_p^\top G_p, \quad G_{p+1} = G_p - V_p Z_p, \quad
       R = \operatorname{triu}(ZM^\top) + \operatorname{striu}(ZM^\top)^\top, \quad
       dV = \operatorname{stril}\Bigl(VR - GM^\top - \begin{bmatrix} Z^\top \\ 0 \end{bmatrix}\Bigr) $$

    With $V$ lower and $M$ upper trapezoidal, $dV$ needs only the upper part of $Z$, and every product only the panels
    that are not known to be zero.
    """
    v, g = _unit_trapezoid(vectors), frame_gradient
    rows, count = v.shape[-2:]
    columns, width = m.shape[-1], max(1, inverses.shape[-1])
    remaining, z = g.clone() if count > width else g, torch.empty_like(m)
    r, dv = v.new_empty(v.shape[0], count, count), torch.empty_like(v)
    for start in range(0, count, width):
        stop = min(start + width, count)
        panel, size = v[:, start:, start:stop], stop - start
        z_panel, m_panel = z[:, start:stop, start:], m[:, start:stop, start:]
        z_panel.baddbmm_(inverses[:, start:stop, :size].mT, panel.mT @ remaining[:, start:, start:], beta=0)
        if stop < count:
            remaining[:, stop:, stop:].baddbmm_(panel[:, size:], z_panel[:, :, size:], alpha=-1)
        block = z[:, :stop, start:] @ m_panel.mT
        r[:, :start, start:stop], r[:, start:stop, :start] = block[:, :start], block[:, :start].mT
        r[:, start:stop, start:stop] = block[:, start:].triu() + block[:, start:].triu(1).mT
        dv_panel = dv[:, start:, start:stop]
        dv_panel[:, : columns - start] = z_panel.mT
        dv_panel[:, columns - start :] = 0
        dv_panel.baddbmm_(g[:, start:, start:], m_panel.mT, beta=-1, alpha=-1)
    for start in range(0, count, width):
        reach = min(start + width, count)
        stop = reach if reach < count else rows
        dv[:, start:stop, :reach].baddbmm_(v[:, start:stop, :reach], r[:, :reach, :reach])
    return dv.tril_(-1)


def _differentiable_gradient(frame_gradient: Tensor, vectors: Tensor) -> Tensor:
    r"""`_gradient` as one panel, $Z = S^{-\top}V^\top G$, $M = S^{-1}V_{1..k}^\top$, without in-place operations."""
    v = vectors.tril(-1) + torch.eye(*vectors.shape[-2:], dtype=vectors.dtype, device=vectors.device)
    gram = v.mT @ v
    s = (gram.triu() + gram.triu(1)) / 2
    rows, columns = frame_gradient.shape[-2:]
    m = torch.linalg.solve_triangular(s, v[..., :columns, :].mT, upper=True)
    z = torch.linalg.solve_triangular(s.mT, v.mT @ frame_gradient, upper=False)
    products = z @ m.mT
    symmetric = products.triu() + products.triu(1).mT
    above = torch.nn.functional.pad(z.mT, (0, 0, 0, rows - columns))
    return (v @ symmetric - frame_gradient @ m.mT - above).tril(-1)


def _few_reflections(
    frame: Frames, vectors: Frames, signs: Signs, count: int, tolerance: float
) -> tuple[Float[Tensor, "*batch rows count"], Signs]:
    r"""`count` vectors and the signs $D$ with $F = H_1\cdots H_m E D$, given the shortest vectors for all columns.

    The signs matter. $e - \sigma f$ reflects a column $f$ to $\sigma e$ for either sign, but the two reflections
    differ by one more: with the wrong sign, $m$ reflections are left over instead of $m - 1$.
    """
    # A vector e only flips a sign: leave it out and flip the sign instead.
    columns = frame.shape[-1]
    kept = torch.arange(columns, device=frame.device) < count
    short_vectors, short_signs = vectors[..., :count], torch.where(kept, signs, -signs)
    excess = vectors[..., count:].abs().amax((-2, -1))
    if bool((excess <= tolerance).all()):
        return short_vectors, short_signs
    long_vectors, long_signs, residual = _peel(frame, count, _signs_by_rank(frame, count, tolerance))
    if not bool((torch.minimum(excess, residual) <= tolerance).all()):
        used = (vectors.abs().amax(-2) > tolerance).reshape(-1, columns).any(0)
        needed = int(used.nonzero().max()) + 1
        remedy = "as many as columns are needed, pass num_reflections=None"
        raise ValueError(
            f"the frame is not a product of {count} reflections and signs: "
            + (f"{needed} are enough, pass num_reflections={needed}" if needed < columns else remedy)
        )
    is_short = (excess <= residual)[..., None]
    found = torch.where(is_short[..., None], short_vectors, long_vectors)
    return found, torch.where(is_short, short_signs, long_signs)


def _signs_by_rank(frame: Frames, count: int, tolerance: float) -> Signs:
    r"""The signs that make $ED - F$ of rank $m$, or 0 where the rank does not determine them.

    Outside the diagonal $ED - F$ is $-F$ whatever the signs. So if $F_{BA}$, for disjoint rows $B$ and columns $A$,
    has rank $m$ already, its null space $N$ is that of all of $(ED - F)_{\cdot A}$, and $D_A N = F_{AA} N$.
    """
    rows, columns = frame.shape[-2:]
    known = torch.zeros_like(frame[..., 0, :])
    if 2 * count >= rows:
        return known
    size = max(count + 1, (columns + 1) // 2)
    for start in (0, columns - size):
        part = slice(start, start + size)
        outside = torch.cat([frame[..., :start, part], frame[..., start + size :, part]], -2)
        span = torch.linalg.svd(outside, full_matrices=False).Vh[..., :count, :]
        inside = frame[..., part, part]
        determined = (inside - inside @ span.mT @ span).diagonal(dim1=-2, dim2=-1)
        known[..., part] = torch.where(determined.abs() > tolerance, determined.sign(), known[..., part])
    return known


def _peel(
    frame: Frames, count: int, known: Signs
) -> tuple[Float[Tensor, "*batch rows count"], Signs, Float[Tensor, "*batch"]]:
    r"""Reflect column after column to $\sigma e$: vectors, signs, and how far the rest is from signed unit vectors.

    $$ \sigma f = e - 2v/\|v\|^2, \qquad v = \bigl(1, -\sigma f_{>i}/(1 - \sigma f_i)\bigr) $$

    Where the sign is not `known` it is the sign of $f_i$, which takes the longer of the two vectors.
    """
    rest, signs = frame.clone(), torch.ones_like(known)
    vectors = torch.zeros_like(frame[..., :count])
    vectors.diagonal(dim1=-2, dim2=-1).fill_(1)
    for i in range(count):
        head, below = rest[..., i, i], rest[..., i + 1 :, i]
        own, square = torch.where(head < 0, -1.0, 1.0), below.square().sum(-1)
        sign = torch.where(known[..., i] == 0, own, known[..., i])
        # No reflection maps e to itself: a column that is finished is reflected to its negative.
        sign = torch.where(square <= torch.finfo(frame.dtype).eps ** 2, -own, sign)
        # 1 - |f_i| would cancel.
        gap = torch.where(sign == own, square / (1 + head.abs()), 1 + head.abs())
        vectors[..., i + 1 :, i], signs[..., i] = -(sign / gap)[..., None] * below, sign
        v = vectors[..., i:, i : i + 1]
        rest[..., i:, :] -= v @ (v.mT @ rest[..., i:, :]) * (2 / v.square().sum(-2, keepdim=True))
    tail = rest[..., count:]
    diagonal = tail.diagonal(offset=-count, dim1=-2, dim2=-1)
    signs[..., count:] = torch.where(diagonal < 0, -1.0, 1.0)
    diagonal.zero_()
    return vectors.tril(-1), signs, tail.abs().amax((-2, -1))
