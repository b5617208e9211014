"""From angles to a frame, as one operation that torch can differentiate, map over and compile."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.givens.checks import check_real, checked_pivots
from orthoscope.linalg.givens.operators import frame_operator, gradient_operator
from orthoscope.linalg.givens.order import givens_count, tile_order
from orthoscope.linalg.givens.products import rotation_product


def givens_frame(
    angles: Float[Tensor, "*batch count"], rows: int, columns: int, pivots: int | None = None
) -> Float[Tensor, "*batch {rows} {columns}"]:
    r"""The first `columns` columns of a product of rotations, one for each pair of coordinates $i < j$ with $i < p$.

    $$ Q = \prod_{i=0}^{p-1} \prod_{j=i+1}^{n-1} G_{ij}(\theta_{ij}) \begin{pmatrix} I_k \\ 0 \end{pmatrix}, \qquad
       G_{ij}(\theta) = \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}
       \text{ in the plane } (i, j) $$

    Angles are in the order of the product (`givens_pairs`), `givens_count(rows, pivots)` of them. With all pivots, p =
    min(columns, rows - 1), the default, this is the Q of a QR factorisation by Givens' eliminations: every frame is
    reached, up to the sign of the last column if it is square, and `givens_coordinates` gives its angles. Fewer pivots
    are a smaller and cheaper family. Zero angles give the identity.

    Costs rows x columns x pivots up to a constant: for a square, 4/3 n³ multiply-adds in products of blocks, and 4 n³
    for the gradient, which undoes the product instead of storing its factors: it keeps the angles and the frame, 3/2 n²
    numbers, and works in 2 n² more and a few megabytes. Up to 256 rows, if they are one block, it keeps the factors as
    well, 2 log₂ n + 1.5 times n² of them for n a power of two, 5 megabytes at most in float32. Derivatives after the
    first are made by plain automatic differentiation, which always stores the factors.
    Half-precision angles are computed in float32.
    """
    check_real(angles, "angles")
    pivots = checked_pivots(rows, columns, pivots)
    count = givens_count(rows, pivots)
    if angles.shape[-1] != count:
        raise ValueError(
            f"{rows} rows with {pivots} pivots have {count} angles, got {angles.shape[-1]}: "
            "ask givens_count(rows, pivots)"
        )
    batch = angles.shape[:-1]
    precise = angles.to(torch.promote_types(angles.dtype, torch.float32)).reshape(batch.numel(), count)
    if precise.numel() == 0:
        identity = torch.eye(rows, columns, dtype=angles.dtype, device=angles.device)
        return identity.expand(*batch, rows, columns).clone()
    # What the compiler has been told of the operator is the frame alone.
    keep = precise.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    frame = _Frame.apply(precise, rows, columns, pivots, keep)[0]
    return frame.to(angles.dtype).reshape(*batch, rows, columns)


class _Frame(torch.autograd.Function):
    @staticmethod
    def forward(angles: Tensor, rows: int, columns: int, pivots: int, keep: bool) -> tuple[Tensor, ...]:
        return tuple(frame_operator(angles, rows, columns, pivots, keep))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int, int, bool], output: tuple[Tensor, ...]) -> None:
        angles, _, _, ctx.pivots, _ = inputs
        ctx.save_for_backward(angles, *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None, *_: None) -> tuple[Tensor | None, None, None, None, None]:
        angles, frame, *kept = ctx.saved_tensors
        to_angles = None if gradient is None else _Gradient.apply(angles, frame, gradient, ctx.pivots, kept)
        return to_angles, None, None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], angles: Tensor, rows: int, columns: int, pivots: int, keep: bool
    ) -> tuple[tuple[Tensor], tuple[int]]:
        stacked = _stacked(info, in_dims[0], angles)
        frames = _Frame.apply(stacked.flatten(0, 1), rows, columns, pivots, False)[0]
        return (frames.unflatten(0, stacked.shape[:2]),), (0,)


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int, kept: list[Tensor]) -> Tensor:
        return gradient_operator(angles, frame, gradient, pivots, kept)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        angles, _, gradient, ctx.pivots, _ = inputs
        ctx.save_for_backward(angles, gradient)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor, None, Tensor, None, None]:
        """Second derivatives. The frame is a function of the angles, and its share is in theirs."""
        angles, gradient = ctx.saved_tensors
        rows, columns = gradient.shape[-2:]
        order = tile_order(rows, ctx.pivots, angles.shape[0], angles.device)

        def pulled_back(angles: Tensor, gradient: Tensor) -> Tensor:
            pullback = torch.func.vjp(lambda angles: rotation_product(angles, rows, columns, order)[0], angles)[1]
            return pullback(gradient)[0]

        to_angles, to_gradient = torch.func.vjp(pulled_back, angles, gradient)[1](direction)
        return to_angles, None, to_gradient, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, int]:
        *tensors, pivots, _ = arguments
        stacks = [_stacked(info, dim, tensor) for dim, tensor in zip(in_dims[:3], tensors, strict=True)]
        # What was kept for one batch does not fit another.
        gradients = _Gradient.apply(*(stack.flatten(0, 1) for stack in stacks), pivots, [])
        return gradients.unflatten(0, stacks[0].shape[:2]), 0


def _stacked(info: Any, dim: int | None, tensor: Tensor) -> Tensor:
    """The mapped dimension first; what is not mapped is repeated."""
    return tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
