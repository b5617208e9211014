"""Frames as products of Householder reflections, and the reflections of a given frame."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import householder_panels
from orthoscope.linalg.householder_partial import few_reflections
from orthoscope.linalg.polar import orthonormality_error
from orthoscope.linalg.precision import full_precision
from orthoscope.linalg.signatures import with_known_signature


def householder_frame(vectors: Tensor, columns: int) -> Float[Tensor, "*batch rows columns"]:
    r"""The first `columns` columns of $H_1 H_2 \cdots H_m$ for `vectors` $(\ldots, n, m)$, $m \le$ `columns` $\le n$.

    $$ H_i = I - 2\frac{v_iv_i^\top}{\|v_i\|^2}, \quad v_i = (0,\dots,0,1,x_{i+1,i},\dots,x_{n,i}), \qquad
       Q = E - V S^{-1} V_{1..k}^\top, \quad
       S = \operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V) $$

    Only the strictly lower part $x$ of `vectors` is read, so no reflection vector can be zero and the diagonal
    is nothing a weight decay could spoil. Zero vectors give $-1$ in the first $m$ places of the diagonal.
    Signs of the columns are not free: multiply by them (`householder_coordinates`) to reach every frame.
    """
    _require_real(vectors)
    if vectors.ndim < 2 or not vectors.shape[-1] <= columns <= vectors.shape[-2]:
        raise ValueError(
            f"vectors of shape {tuple(vectors.shape)} cannot give {columns} columns: "
            "pass (..., n, m) with one reflection a column and m <= columns <= n"
        )
    # Products in half precision would not be orthonormal.
    with full_precision(vectors.device.type):
        frame, _, _ = _Reflections.apply(vectors.flatten(0, -3) if vectors.ndim > 2 else vectors[None], columns)
        return frame.reshape(*vectors.shape[:-1], columns)


def householder_coordinates(
    frame: Tensor, num_reflections: int | None = None
) -> tuple[Float[Tensor, "*batch rows reflections"], Float[Tensor, "*batch columns"]]:
    r"""Vectors and signs $\pm1$ with `frame == householder_frame(vectors, columns) * signs`, to rounding.

    All of them (`num_reflections=None`: one a column) come from a QR factorisation, whose triangle is
    $\operatorname{diag}(\pm 1)$ for an orthonormal frame; every vector then has $\|v\|^2 \le 2$.
    With fewer, $m$, the frame must be a product of $m$ reflections and signs. It is recognised as one if all its
    vectors have $\|v\|^2 < 2$, or all $\|v\|^2 > 2$, or if $2m < n$ and they are in general position; many long
    vectors are not determined to rounding by their product. Computed in float64, returned in the type of `frame`.
    """
    _require_real(frame)
    if frame.ndim < 2 or frame.shape[-2] < frame.shape[-1]:
        raise ValueError(f"a frame has at least as many rows as columns, got {tuple(frame.shape)}: pass its transpose")
    columns = frame.shape[-1]
    count = columns if num_reflections is None else num_reflections
    if not 0 <= count <= columns:
        raise ValueError(f"num_reflections must be between 0 and the {columns} columns of the frame, got {count}")
    # Rounding of a frame that was computed in its own type is far below, any other matrix far above.
    tolerance = torch.finfo(frame.dtype).eps ** 0.5
    error = orthonormality_error(frame)
    if not bool((error <= tolerance).all()):
        raise ValueError(
            f"the columns are not orthonormal (max |QᵀQ - I| is {float(error.max()):.1e}, at most {tolerance:.1e} "
            "is accepted): project them with polar_factor first"
        )
    precise = frame.detach().double()
    vectors, signs = _shortest_reflections(precise)
    if count < columns:
        # Stricter, because what is left over is dropped: the frame would change by as much.
        vectors, signs = few_reflections(precise, vectors, signs, count, torch.finfo(frame.dtype).eps ** (2 / 3))
    return vectors.to(frame.dtype), signs.to(frame.dtype)


def _shortest_reflections(
    frame: Float[Tensor, "*batch rows columns"],
) -> tuple[Float[Tensor, "*batch rows columns"], Float[Tensor, "*batch columns"]]:
    factors, scales = torch.geqrf(frame)
    # Where there is nothing to reflect LAPACK takes H = I; here it is I - 2eeᵀ, and the sign pays for it.
    negative = (factors.diagonal(dim1=-2, dim2=-1) < 0) ^ (scales == 0)
    return factors.tril(-1), 1 - 2 * negative.to(frame.dtype)


def _require_real(matrix: Tensor) -> None:
    if matrix.is_complex():
        raise TypeError(f"Householder reflections are real here, got {matrix.dtype}: use cayley or exponential")
    if matrix.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"Householder reflections take float32 or float64, got {matrix.dtype}: convert it first")


class _Reflections(torch.autograd.Function):
    """`frame_by_panels` with its derivatives; $M$ and the inverses are outputs because only outputs can be saved."""

    @staticmethod
    @with_known_signature
    def forward(vectors: Tensor, columns: int) -> tuple[Tensor, Tensor, Tensor]:
        return householder_panels.frame_by_panels(vectors, columns, householder_panels.PANEL)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor, Tensor]) -> None:
        vectors, ctx.columns = inputs
        _, m, inverses = output
        ctx.mark_non_differentiable(m, inverses)
        ctx.save_for_backward(vectors, m, inverses)

    @staticmethod
    def backward(ctx: Any, frame_gradient: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        with full_precision(frame_gradient.device.type):
            return _ReflectionsGradient.apply(frame_gradient, *ctx.saved_tensors), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], vectors: Tensor, columns: int) -> tuple[Any, tuple[int, int, int]]:
        frame, m, inverses = _Reflections.apply(_leading(vectors, in_dims[0], info.batch_size), columns)
        return tuple(x.unflatten(0, (info.batch_size, -1)) for x in (frame, m, inverses)), (0, 0, 0)


class _ReflectionsGradient(torch.autograd.Function):
    """`gradient_by_panels` as a function of the frame's gradient and the vectors, of which $M$ is one too."""

    @staticmethod
    @with_known_signature
    def forward(frame_gradient: Tensor, vectors: Tensor, m: Tensor, inverses: Tensor) -> Tensor:
        return householder_panels.gradient_by_panels(frame_gradient, vectors, m, inverses)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor, Tensor, None, None]:
        pull = torch.func.vjp(_gradient, *ctx.saved_tensors)[1]
        return *pull(cotangent), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        moved = (_leading(x, axis, info.batch_size) for x, axis in zip(tensors, in_dims, strict=True))
        return _ReflectionsGradient.apply(*moved).unflatten(0, (info.batch_size, -1)), 0


def _leading(tensor: Tensor, axis: int | None, size: int) -> Tensor:
    """The mapped axis, or `size` copies where there is none, joined with the batch."""
    return (tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)).flatten(0, 1)


def _gradient(frame_gradient: Tensor, vectors: Tensor) -> Tensor:
    r"""`gradient_by_panels` as one panel, $Z = S^{-\top}V^\top G$, $M = S^{-1}V_{1..k}^\top$."""
    # Nothing in place: this is what second derivatives go through.
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
