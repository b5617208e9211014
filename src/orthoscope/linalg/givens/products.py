r"""The product of rotations, on the first columns of the identity.

With coordinates in blocks $0, 1, \dots$ the product is, in triangles $T$ and tiles $X$,

$$ Q = \prod_{I} \Bigl( T(I) \prod_{J > I} X(I, J) \Bigr), $$

taken from the right. A tile changes two blocks of rows and nothing else; when pivot block $I$ is reached, all columns
before it are still columns of the identity, and are left out: $\tfrac43 n^3$ multiply-adds for a square. The rows of
$I$ itself are from last to first until its triangle has turned them.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from orthoscope.linalg.givens.order import Order
from orthoscope.linalg.givens.tiles import tile_levels
from orthoscope.linalg.givens.triangles import Level, triangle_levels


def rotation_product(angles: Tensor, rows: int, columns: int, order: Order) -> tuple[Tensor, list[Level]]:
    """Frames `(batch, rows, columns)` of angles `(batch, count)`, by operations that torch can differentiate.

    And the triangles that were made on the way.
    """
    slots = angle_slots(angles)
    levels = triangle_levels(slots_at(slots, order.triangles), order.size)
    triangles = levels[-1].triangles.unflatten(0, (order.pivot_blocks, -1))
    tiles = _tiles_from_last(slots, order)
    settled = order.pivot_blocks * order.size
    below = _identity(angles, order.row_blocks * order.size - settled, max(columns - settled, 0))
    blocks = [below] * order.pivot_blocks + list(below.split(order.size, 1))
    for pivot in range(order.pivot_blocks - 1, -1, -1):
        if pivot == order.row_blocks - 1:
            blocks[pivot] = triangles[pivot].flip(-1)[:, :, : columns - pivot * order.size]
            continue
        current = _identity(angles, order.size, columns - pivot * order.size).flip(1)
        for other in range(order.row_blocks - 1, pivot, -1):
            current, blocks[other] = _turned(next(tiles), current, blocks[other])
        blocks[pivot] = triangles[pivot] @ current
    # Blocks start at the columns of the last pivot block that changed them: the first, for all of them by now.
    return torch.cat(blocks[: order.row_blocks], 1)[:, :rows], levels


def angle_slots(angles: Tensor) -> Tensor:
    """Angles as `(count + 1, batch)`, the last one zero: where pairs that do not exist find theirs."""
    return torch.nn.functional.pad(angles, (0, 1)).mT.contiguous()


def slots_at(slots: Tensor, places: Tensor) -> Tensor:
    return slots.index_select(0, places).flatten()


def _turned(tile: Tensor, pivot: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The tile times two blocks of rows, the second of which lacks the first columns: they are zero."""
    size, missing = pivot.shape[-2], pivot.shape[-1] - other.shape[-1]
    both = tile[:, :, :size] @ pivot
    both[:, :, missing:].baddbmm_(tile[:, :, size:], other)
    return both[:, :size], both[:, size:]


def _tiles_from_last(slots: Tensor, order: Order) -> Iterator[Tensor]:
    for chunk in reversed(order.chunks):
        tiles = tile_levels(slots_at(slots, chunk.places), order.size)[-1]
        yield from reversed(tiles.unflatten(0, (len(chunk.blocks), -1)).unbind(0))


def _identity(like: Tensor, rows: int, columns: int) -> Tensor:
    return torch.eye(rows, columns, dtype=like.dtype, device=like.device).expand(like.shape[0], rows, columns)
