r"""The product of rotations, undone from the left: for its gradient, and for elimination.

For a tile $X$, $Q_{\text{in}} = X^\top Q_{\text{out}}$, so the gradient needs the angles and the result, and nothing
that the product went through; tiles are made anew, a chunk at a time. With $G = \partial f/\partial Q$,

$$ G_{\text{in}} = X^\top G_{\text{out}}, \qquad \frac{\partial f}{\partial X} = G_{\text{out}}\, Q_{\text{in}}^\top. $$
"""

import torch
from torch import Tensor

from orthoscope.linalg.givens.order import Order, tile_order
from orthoscope.linalg.givens.products import angle_slots, slots_at
from orthoscope.linalg.givens.tiles import tile_levels, tile_levels_backward
from orthoscope.linalg.givens.triangles import Level, triangle_levels, triangle_levels_backward


def rotation_gradient(
    angles: Tensor, frame: Tensor, gradient: Tensor, order: Order, levels: list[Level] | None = None
) -> Tensor:
    """The gradient `(batch, count)` for the angles, given the frame they make and the gradient for it.

    Triangles are made anew if they are not given.
    """
    slots = angle_slots(angles)
    to_slots = torch.zeros_like(slots)
    states = [_row_blocks(matrix, order) for matrix in (frame, gradient)]
    levels = levels or triangle_levels(slots_at(slots, order.triangles), order.size)
    triangles = levels[-1].triangles.unflatten(0, (order.pivot_blocks, -1))
    to_triangles = torch.empty_like(triangles)
    for chunk in order.chunks:
        parts = tile_levels(slots_at(slots, chunk.places), order.size)
        tiles = parts[-1].unflatten(0, (len(chunk.blocks), -1))
        to_tiles = torch.empty_like(tiles)
        for (pivot, other), tile, to_tile in zip(chunk.blocks, tiles, to_tiles, strict=True):
            if other == pivot + 1:
                _undo_triangle(states, pivot, triangles[pivot], to_triangles[pivot])
            _undo_tile(states, pivot, other, tile, to_tile)
        _put(to_slots, chunk.places, tile_levels_backward(parts, to_tiles.flatten(0, 1)))
    if order.pivot_blocks == order.row_blocks:
        # Before the last block comes the identity, with its rows from last to first.
        rows = _from_pivot(states[1][-1], order.row_blocks - 1)
        to_triangles[-1] = torch.nn.functional.pad(rows, (0, order.size - rows.shape[-1])).flip(-1)
    _put(to_slots, order.triangles, triangle_levels_backward(levels, to_triangles.flatten(0, 1)))
    return to_slots[:-1].mT


def panel_undone(angles: Tensor, matrix: Tensor, pivots: int) -> Tensor:
    """The transposed product times matrices `(batch, rows, columns)`, for pivots that fit one block."""
    order = tile_order(matrix.shape[-2], pivots, angles.shape[0], angles.device)
    assert order.pivot_blocks == 1, f"{pivots} pivots are more than a block of {order.size}"
    slots, blocks = angle_slots(angles), _row_blocks(matrix, order)
    blocks[0] = triangle_levels(slots_at(slots, order.triangles), order.size)[-1].triangles.mT @ blocks[0]
    for chunk in order.chunks:
        tiles = tile_levels(slots_at(slots, chunk.places), order.size)[-1].unflatten(0, (len(chunk.blocks), -1))
        for (_, other), tile in zip(chunk.blocks, tiles, strict=True):
            blocks[0], blocks[other] = _before(tile, blocks[0], blocks[other]).split(order.size, 1)
    blocks[0] = blocks[0].flip(1)
    return torch.cat(blocks, 1)[:, : matrix.shape[-2]]


def _undo_tile(states: list[list[Tensor]], pivot: int, other: int, tile: Tensor, to_tile: Tensor) -> None:
    size = tile.shape[-1] // 2
    after = [(blocks[pivot], _from_pivot(blocks[other], pivot)) for blocks in states]
    before = [_before(tile, *rows) for rows in after]
    torch.bmm(after[1][0], before[0].mT, out=to_tile[:, :size])
    torch.bmm(after[1][1], before[0].mT, out=to_tile[:, size:])
    for blocks, rows in zip(states, before, strict=True):
        blocks[pivot] = rows[:, :size]
        # Copied, so that the rows of a pivot that has moved on are not kept alive.
        _from_pivot(blocks[other], pivot).copy_(rows[:, size:])


def _undo_triangle(states: list[list[Tensor]], pivot: int, triangle: Tensor, to_triangle: Tensor) -> None:
    after = [_from_pivot(blocks[pivot], pivot) for blocks in states]
    for blocks, rows in zip(states, after, strict=True):
        blocks[pivot] = triangle.mT @ rows
    torch.bmm(after[1], states[0][pivot].mT, out=to_triangle)


def _before(tile: Tensor, pivot: Tensor, other: Tensor) -> Tensor:
    """The transposed tile times two blocks of rows."""
    size = pivot.shape[-2]
    return (tile[:, :size].mT @ pivot).baddbmm_(tile[:, size:].mT, other)


def _from_pivot(rows: Tensor, pivot: int) -> Tensor:
    """The columns that a pivot block can change."""
    return rows[:, :, pivot * rows.shape[-2] :]


def _row_blocks(matrix: Tensor, order: Order) -> list[Tensor]:
    """A copy, filled up with rows of zeros, in blocks of rows."""
    missing = order.row_blocks * order.size - matrix.shape[-2]
    # Padding copies, whether there is anything to fill up or not.
    return list(torch.nn.functional.pad(matrix, (0, 0, 0, missing)).split(order.size, 1))


def _put(slots: Tensor, places: Tensor, values: Tensor) -> None:
    slots.index_copy_(0, places.long(), values.view(-1, slots.shape[1]))
