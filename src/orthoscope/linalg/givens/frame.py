r"""From angles to an orthonormal frame, as one operation that torch can differentiate, map over and compile.

With coordinates in blocks $0, 1, \dots$ the product is, in triangles $T$ and tiles $X$,

$$ Q = \prod_{I} \Bigl( T(I) \prod_{J > I} X(I, J) \Bigr), $$

taken from the right. A tile changes two blocks of rows and nothing else; when pivot block $I$ is reached, all columns
before it are still columns of the identity and are left out: $\tfrac43 n^3$ multiply-adds for a square.

The gradient undoes the product from the left. For a tile $X$, $Q_{\text{in}} = X^\top Q_{\text{out}}$, so only the
angles and the result are needed, and tiles are computed again, a chunk at a time. With $G = \partial f/\partial Q$,

$$ G_{\text{in}} = X^\top G_{\text{out}}, \qquad \frac{\partial f}{\partial X} = G_{\text{out}}\, Q_{\text{in}}^\top. $$
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.givens._tiles import (
    Level,
    Order,
    cached_order,
    tile_levels,
    tile_levels_backward,
    tile_order,
    triangle_levels,
    triangle_levels_backward,
)
from orthoscope.linalg.precision import full_precision, mapped_first, to_double
from orthoscope.linalg.products import corrected, gram_excess

# Rows per column from which on a Gram matrix in double precision is a small part of the cost.
_TALL = 2


def givens_frame(
    angles: Float[Tensor, "*batch count"], rows: int, columns: int, pivots: int | None = None
) -> Float[Tensor, "*batch {rows} {columns}"]:
    r"""The first `columns` columns of a product of rotations, one for each pair of coordinates $i < j$ with $i < p$.

    $$ Q = \prod_{i=0}^{p-1} \prod_{j=i+1}^{n-1} G_{ij}(\theta_{ij}) \begin{pmatrix} I_k \\ 0 \end{pmatrix}, \qquad
       G_{ij}(\theta) = \begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}
       \text{ in the plane } (i, j) $$

    With all pivots this is the Q of a QR factorization by Givens' eliminations: every frame is reached, up to the sign
    of the last column if it is square, and `givens_coordinates` gives its angles. Zero angles give the identity.

    The cost is rows x columns x pivots up to a constant: for a square, 4/3 n³ multiply-adds in products of blocks, and
    4 n³ for the gradient, which keeps the angles and the frame, 3/2 n² numbers, and needs 2 n² more and a few
    megabytes. Derivatives after the first are by automatic differentiation, which stores all factors.

    Args:
        angles: In the order of the product (`givens_pairs`), `givens_count(rows, pivots)` of them. Half precision is
            computed in float32.
        rows: Number of coordinates $n$.
        columns: Columns of the frame, at most `rows`.
        pivots: $p$, by default min(columns, rows - 1), which reaches every frame; fewer are a smaller family.

    Raises:
        TypeError: If the angles are not real floating-point numbers.
        ValueError: If the numbers of rows, columns, pivots and angles do not fit together.
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
    return _Frame.apply(precise, rows, columns, pivots).to(angles.dtype).reshape(*batch, rows, columns)


def givens_count(rows: int, pivots: int) -> int:
    """The number of pairs of one of the first `pivots` coordinates and a later one, p(2n - p - 1)/2.

    Args:
        rows: Number of coordinates $n$.
        pivots: $p$, the coordinates that are rotated with all later ones.
    """
    return pivots * (2 * rows - pivots - 1) // 2


def givens_pairs(rows: int, pivots: int) -> list[tuple[int, int]]:
    """The pair of coordinates that each angle rotates, in the order of the product.

    Args:
        rows: Number of coordinates $n$.
        pivots: $p$, the coordinates that are rotated with all later ones.
    """
    return [(pivot, other) for pivot in range(pivots) for other in range(pivot + 1, rows)]


def check_real(tensor: Tensor, name: str) -> None:
    """Raise TypeError for a tensor that is not of real floating-point numbers."""
    if not tensor.is_floating_point():
        raise TypeError(
            f"rotations take real floating-point {name}, got {tensor.dtype}: "
            "complex weights have the Cayley map and the exponential"
        )


def checked_pivots(rows: int, columns: int, pivots: int | None) -> int:
    """`pivots`, or as many as make a difference, min(columns, rows - 1); ValueError for impossible numbers."""
    if not 1 <= columns <= rows:
        raise ValueError(f"a frame has at least one column and no fewer rows, got {rows} x {columns}: transpose it")
    most = min(columns, rows - 1)
    if pivots is not None and not 0 <= pivots <= most:
        raise ValueError(f"a {rows} x {columns} frame has 0 to {most} pivots, got {pivots}")
    return most if pivots is None else pivots


def angle_slots(angles: Tensor) -> Tensor:
    """Angles as `(count + 1, batch)`, the last one zero: the place of pairs that do not exist."""
    return torch.nn.functional.pad(angles, (0, 1)).mT.contiguous()


def angles_at(slots: Tensor, places: Tensor) -> Tensor:
    """The angles at places `(pairs, tiles)`: `(pairs, tiles * batch)`."""
    return slots.index_select(0, places.flatten()).view(places.shape[0], -1)


def rotation_product(angles: Tensor, rows: int, columns: int, order: Order) -> Tensor:
    """Frames `(batch, rows, columns)` of angles `(batch, count)`, by operations that torch can differentiate."""
    slots = angle_slots(angles)
    triangles = triangles_of(slots, order)[-1].triangles.unflatten(0, (order.pivot_blocks, -1))
    tiles = _tiles_from_last(slots, order)
    pivot_rows = order.pivot_blocks * order.size
    below = _identity(angles, order.row_blocks * order.size - pivot_rows, max(columns - pivot_rows, 0))
    blocks = [below] * order.pivot_blocks + list(below.split(order.size, 1))
    for pivot in range(order.pivot_blocks - 1, -1, -1):
        if pivot == order.row_blocks - 1:
            blocks[pivot] = triangles[pivot][:, :, : columns - pivot * order.size]
            continue
        current = _identity(angles, order.size, columns - pivot * order.size)
        for other in range(order.row_blocks - 1, pivot, -1):
            current, blocks[other] = _rotated(next(tiles), current, blocks[other])
        blocks[pivot] = triangles[pivot] @ current
    # A block starts at the columns of the last pivot block that changed it: by now the first, for all of them.
    return torch.cat(blocks[: order.row_blocks], 1)[:, :rows]


def triangles_of(slots: Tensor, order: Order) -> list[Level]:
    """The triangles of all pivot blocks, `(pivot_blocks * batch, size, size)`, after those of smaller sizes."""
    triangle_angles, tile_angles = angles_at(slots, order.triangle_places), angles_at(slots, order.tile_places)
    return triangle_levels(triangle_angles, tile_angles, order.pivot_blocks * slots.shape[1])


def _tiles_from_last(slots: Tensor, order: Order) -> Iterator[Tensor]:
    for chunk in reversed(order.chunks):
        tiles = tile_levels(angles_at(slots, chunk.places), order.size)[-1]
        yield from reversed(tiles.unflatten(0, (len(chunk.blocks), -1)).unbind(0))


def _rotated(tile: Tensor, pivot: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The tile times two blocks of rows, the second of which lacks the first columns: they are zero."""
    size, missing = pivot.shape[-2], pivot.shape[-1] - other.shape[-1]
    both = tile[:, :, :size] @ pivot
    both[:, :, missing:].baddbmm_(tile[:, :, size:], other)
    return both[:, :size], both[:, size:]


def _identity(like: Tensor, rows: int, columns: int) -> Tensor:
    return torch.eye(rows, columns, dtype=like.dtype, device=like.device).expand(like.shape[0], rows, columns)


def rotation_gradient(angles: Tensor, frame: Tensor, gradient: Tensor, order: Order) -> Tensor:
    """The gradient `(batch, count)` for the angles, given the frame of the angles and the gradient for it."""
    slots = angle_slots(angles)
    to_slots = torch.zeros_like(slots)
    states = [filled_up(matrix, order) for matrix in (frame, gradient)]

    def undo(blocks: tuple[int, ...], factor: Tensor, to_factor: Tensor) -> None:
        # Columns before the pivot block are not changed any more.
        first = blocks[0] * order.size
        (_, before), (after, _) = (undo_(state[..., first:], factor, blocks, order.size) for state in states)
        torch.bmm(after, before.mT, out=to_factor)

    def put(places: Tensor, values: Tensor) -> None:
        to_slots.index_copy_(0, places.flatten().long(), values.reshape(-1, slots.shape[1]))

    levels = triangles_of(slots, order)
    triangles = levels[-1].triangles.unflatten(0, (order.pivot_blocks, -1))
    to_triangles = torch.empty_like(triangles)
    for chunk in order.chunks:
        chunk_angles = angles_at(slots, chunk.places)
        parts = tile_levels(chunk_angles, order.size)
        tiles = parts[-1].unflatten(0, (len(chunk.blocks), -1))
        to_tiles = torch.empty_like(tiles)
        for (pivot, other), tile, to_tile in zip(chunk.blocks, tiles, to_tiles, strict=True):
            if other == pivot + 1:
                undo((pivot,), triangles[pivot], to_triangles[pivot])
            undo((pivot, other), tile, to_tile)
        put(chunk.places, tile_levels_backward(chunk_angles, parts, to_tiles.flatten(0, 1)))
    if order.pivot_blocks == order.row_blocks:
        undo((order.row_blocks - 1,), triangles[-1], to_triangles[-1])
    within = angles_at(slots, order.triangle_places), angles_at(slots, order.tile_places)
    to_triangle_angles, to_tile_angles = triangle_levels_backward(*within, levels, to_triangles.flatten(0, 1))
    put(order.triangle_places, to_triangle_angles)
    put(order.tile_places, to_tile_angles)
    return to_slots[:-1].mT


def filled_up(matrix: Tensor, order: Order) -> Tensor:
    """A copy with rows of zeros below, up to whole blocks."""
    return torch.nn.functional.pad(matrix, (0, 0, 0, order.row_blocks * order.size - matrix.shape[-2]))


def undo_(state: Tensor, factor: Tensor, blocks: tuple[int, ...], size: int) -> tuple[Tensor, Tensor]:
    """Multiply blocks of rows by the transposed factor, in place. Returns the rows as they were, and as they are."""
    parts = [state[:, block * size : (block + 1) * size] for block in blocks]
    after = torch.cat(parts, 1)
    before = factor.mT @ after
    for part, rows in zip(parts, before.split(size, 1), strict=True):
        part.copy_(rows)
    return after, before


# The product and its gradient are operators, which a compiler keeps whole instead of tracing a thousand products.
@torch.library.custom_op("orthoscope::givens_frame", mutates_args=())
def _frame_operator(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
    order = cached_order(rows, pivots, angles.shape[0], angles.device)
    with full_precision(angles.device.type):
        frame = rotation_product(angles, rows, columns, order)
        # A pivot is rotated with every row, and each rounded rotation changes its length a little: removed here. For
        # tall frames in double precision, because thousands of equal entries round their sum in the same direction.
        excess = gram_excess(to_double(frame)).to(frame.dtype) if rows >= _TALL * columns else gram_excess(frame)
        return corrected(frame, excess, degree=1).contiguous()


@torch.library.custom_op("orthoscope::givens_gradient", mutates_args=())
def _gradient_operator(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int) -> Tensor:
    order = cached_order(frame.shape[-2], pivots, angles.shape[0], angles.device)
    with full_precision(angles.device.type):
        return rotation_gradient(angles, frame, gradient, order).contiguous()


@_frame_operator.register_fake
def _(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
    return angles.new_empty(angles.shape[0], rows, columns)


@_gradient_operator.register_fake
def _(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int) -> Tensor:
    return torch.empty_like(angles)


class _Frame(torch.autograd.Function):
    @staticmethod
    def forward(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
        return _frame_operator(angles, rows, columns, pivots)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, int, int], output: Tensor) -> None:
        ctx.pivots = inputs[3]
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return _Gradient.apply(*ctx.saved_tensors, gradient, ctx.pivots), None, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], angles: Tensor, rows: int, columns: int, pivots: int
    ) -> tuple[Tensor, int]:
        stacked = mapped_first(angles, in_dims[0], info.batch_size)
        return _Frame.apply(stacked.flatten(0, 1), rows, columns, pivots).unflatten(0, stacked.shape[:2]), 0


class _Gradient(torch.autograd.Function):
    @staticmethod
    def forward(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int) -> Tensor:
        return _gradient_operator(angles, frame, gradient, pivots)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, int], output: Tensor) -> None:
        angles, _, gradient, ctx.pivots = inputs
        ctx.save_for_backward(angles, gradient)

    @staticmethod
    def backward(ctx: Any, direction: Tensor) -> tuple[Tensor, None, Tensor, None]:
        """Second derivatives. The frame is a function of the angles, and its share is in theirs."""
        angles, gradient = ctx.saved_tensors
        rows, columns = gradient.shape[-2:]
        order = tile_order(rows, ctx.pivots, angles.shape[0], angles.device)

        def pulled_back(angles: Tensor, gradient: Tensor) -> Tensor:
            return torch.func.vjp(lambda angles: rotation_product(angles, rows, columns, order), angles)[1](gradient)[0]

        to_angles, to_gradient = torch.func.vjp(pulled_back, angles, gradient)[1](direction)
        return to_angles, None, to_gradient, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Tensor, int]:
        *tensors, pivots = arguments
        stacks = [mapped_first(x, axis, info.batch_size) for x, axis in zip(tensors, in_dims[:3], strict=True)]
        gradients = _Gradient.apply(*(stack.flatten(0, 1) for stack in stacks), pivots)
        return gradients.unflatten(0, stacks[0].shape[:2]), 0
