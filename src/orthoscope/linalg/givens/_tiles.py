r"""Products of many rotations as one orthogonal matrix: tiles between two blocks of coordinates, triangles within one.

The product is taken in the order $(0,1), (0,2), \dots, (0,n-1), (1,2), \dots$. Rotations that share no coordinate
commute, so every order that keeps the order of each coordinate's rotations gives the same product. A *tile* $X(I, J)$,
the product of all rotations between two blocks, consists of four tiles of half the size, and a *triangle* $T(I)$, the
product of all rotations within a block, of two triangles and a tile:

$$ X(I, J) = X(I_1, J_1)\; X(I_1, J_2)\, X(I_2, J_1)\; X(I_2, J_2), \qquad T(I) = T(I_1)\; X(I_1, I_2)\; T(I_2) $$

All tiles and triangles of one size are computed together, so the number of steps is logarithmic. Stacks are `(count,
rows, columns)`. Gradients are computed by hand from the stacks of all sizes.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations, product
from typing import NamedTuple

import torch
from torch import Tensor

# Coordinates a side of the smallest tiles and triangles, which are products of single rotations, elementwise.
_BASE = 4
_TILE_PAIRS = tuple(product(range(_BASE), range(_BASE, 2 * _BASE)))
_TRIANGLE_PAIRS = tuple(combinations(range(_BASE), 2))

# Coordinates in a block: with fewer there are too many blocks, with more tiles take more work than they save.
_SMALLEST, _LARGEST = 16, 128
# From this many blocks on, the rows that fill up the last one do not matter.
_MANY = 4
# This many coordinates, or three quarters of them, are a single block and so a single triangle.
_WHOLE = 256
# Matrix elements of the tiles computed at once: one or two megabytes.
_CHUNK_ELEMENTS = 1 << 19


class Chunk(NamedTuple):
    """Tiles that are computed together: the blocks they act on, and the places `(16, ...)` of their angles."""

    blocks: tuple[tuple[int, int], ...]
    places: Tensor


class Order(NamedTuple):
    """Blocks of `size` coordinates, a power of two, and the places of all angles in triangles and in tiles.

    Blocks are filled up with pairs that do not exist. Their place is the one after the last angle, where a 0 is put.
    """

    size: int
    pivot_blocks: int
    row_blocks: int
    triangle_places: Tensor  # (6, ...), of the smallest triangles
    tile_places: Tensor  # (16, ...), of the smallest tiles within triangles
    chunks: tuple[Chunk, ...]


def tile_order(rows: int, pivots: int, batch: int, device: torch.device) -> Order:
    """How a product over `rows` coordinates, of which `pivots` are rotated with all later ones, is cut into tiles."""
    size = _block_size(rows, pivots)
    pivot_blocks, row_blocks = -(-pivots // size), -(-rows // size)

    def places(pairs: Sequence[tuple[int, int]], first: Tensor, second: Tensor) -> Tensor:
        i, j = (torch.tensor(pairs, device=device).T.unsqueeze(-1) + torch.stack([first, second]).unsqueeze(1)).unbind()
        place = i * (2 * rows - i - 1) // 2 + j - i - 1
        return torch.where((i < pivots) & (j < rows), place, pivots * (2 * rows - pivots - 1) // 2).to(torch.int32)

    corners = [(pivot, other) for pivot in range(pivot_blocks) for other in range(pivot + 1, row_blocks)]
    together = max(1, _CHUNK_ELEMENTS // (batch * (2 * size) ** 2))
    chunks = []
    for start in range(0, len(corners), together):
        blocks = tuple(corners[start : start + together])
        first, second = (torch.tensor(blocks, device=device) * size).unbind(1)
        for half in _halves(size):
            first, second = _quartered(first, second, half)
        # The second coordinates of pairs count from _BASE on.
        chunks.append(Chunk(blocks, places(_TILE_PAIRS, first, second - _BASE)))
    starts = torch.arange(pivot_blocks, device=device) * size
    first = second = starts[:0]
    for half in _halves(size):
        first, second = _quartered(first, second, half)
        # Tiles between two triangles first, then parts of larger tiles: see `Level`.
        first, second = torch.cat([starts, first]), torch.cat([starts + half, second])
        starts = torch.cat([starts, starts + half])
    triangle_places = places(_TRIANGLE_PAIRS, starts, starts)
    return Order(
        size, pivot_blocks, row_blocks, triangle_places, places(_TILE_PAIRS, first, second - _BASE), (*chunks,)
    )


@lru_cache(maxsize=32)
def cached_order(rows: int, pivots: int, batch: int, device: torch.device) -> Order:
    """`tile_order`, cached: two bytes for each element of a square frame.

    Not to be called under `torch.func`, whose tensors must not outlive the call.
    """
    with torch.inference_mode(False):
        return tile_order(rows, pivots, batch, device)


def _block_size(rows: int, pivots: int) -> int:
    largest = _LARGEST // 2 if _LARGEST < rows < _MANY * _LARGEST else _LARGEST
    largest = _WHOLE if 3 * _WHOLE // 4 <= rows <= _WHOLE else largest
    return max(_BASE, 1 << (min(rows, max(min(pivots, largest), _SMALLEST)) - 1).bit_length())


def _halves(size: int) -> list[int]:
    """`size` / 2, `size` / 4, ..., _BASE."""
    return [size >> shift for shift in range(1, (size // _BASE).bit_length())]


def _quartered(first: Tensor, second: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """First coordinates of the four parts of tiles: all first parts, all second parts, and so on."""
    return (
        torch.cat([first, first, first + half, first + half]),
        torch.cat([second, second + half, second, second + half]),
    )


class Level(NamedTuple):
    """Triangles of one size, and all tiles of that size: first those between two triangles, then parts of larger."""

    triangles: Tensor
    tiles: Tensor

    @property
    def between(self) -> Tensor:
        return self.tiles[: self.triangles.shape[0] // 2]

    @property
    def parts(self) -> Tensor:
        return self.tiles[self.triangles.shape[0] // 2 :]


def tile_levels(angles: Tensor, size: int) -> list[Tensor]:
    """Tiles of 4, 8, ..., `size` coordinates a side, from angles `(16, count)`; the last are the result."""
    levels = [_rotations(angles, _TILE_PAIRS)]
    while levels[-1].shape[-1] < 2 * size:
        levels.append(_merged(levels[-1]))
    return levels


def tile_levels_backward(angles: Tensor, levels: list[Tensor], gradient: Tensor) -> Tensor:
    """The gradient for the angles from that of the last of `tile_levels`."""
    for children in levels[-2::-1]:
        gradient = _merged_backward(children, gradient)
    return _rotations_backward(angles, _TILE_PAIRS, levels[0], gradient)


def triangle_levels(triangle_angles: Tensor, tile_angles: Tensor, count: int) -> list[Level]:
    """Triangles of 4, 8, ... coordinates, until there are `count`, from angles `(6, ...)` and `(16, ...)`."""
    levels = [Level(_rotations(triangle_angles, _TRIANGLE_PAIRS), _rotations(tile_angles, _TILE_PAIRS))]
    while levels[-1].triangles.shape[0] > count:
        level = levels[-1]
        levels.append(Level(_composed(level.triangles, level.between), _merged(level.parts)))
    return levels


def triangle_levels_backward(
    triangle_angles: Tensor, tile_angles: Tensor, levels: list[Level], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients for both kinds of angles from that of the last triangles of `triangle_levels`."""
    to_tiles = levels[-1].tiles[:0]
    for level in levels[-2::-1]:
        to_parts = _merged_backward(level.parts, to_tiles)
        gradient, to_between = _composed_backward(level.triangles, level.between, gradient)
        to_tiles = torch.cat([to_between, to_parts])
    smallest = levels[0]
    return (
        _rotations_backward(triangle_angles, _TRIANGLE_PAIRS, smallest.triangles, gradient),
        _rotations_backward(tile_angles, _TILE_PAIRS, smallest.tiles, to_tiles),
    )


def _rotations(angles: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """The product of rotations of `pairs`, in this order, by `angles` `(pairs, count)`: `(count, size, size)`."""
    size, count = max(pairs[-1]) + 1, angles.shape[1]
    rows = list(torch.eye(size, dtype=angles.dtype, device=angles.device)[..., None].expand(-1, -1, count))
    for (i, j), cosine, sine in reversed(list(zip(pairs, angles.cos(), angles.sin(), strict=True))):
        rows[i], rows[j] = cosine * rows[i] - sine * rows[j], sine * rows[i] + cosine * rows[j]
    return torch.stack(rows).permute(2, 0, 1).contiguous()


def _rotations_backward(angles: Tensor, pairs: Sequence[tuple[int, int]], tiles: Tensor, gradient: Tensor) -> Tensor:
    """The gradient for the angles of `_rotations`: rotations are undone one by one, from the left."""
    rows, grads = (list(stack.permute(1, 2, 0).contiguous()) for stack in (tiles, gradient))
    to_angles = torch.empty_like(angles)
    for place, ((i, j), cosine, sine) in enumerate(zip(pairs, angles.cos(), angles.sin(), strict=True)):
        # The derivative of the two rows is the second one negated, and the first one.
        to_angles[place] = (grads[j] * rows[i] - grads[i] * rows[j]).sum(0)
        for each in (rows, grads):
            each[i], each[j] = cosine * each[i] + sine * each[j], cosine * each[j] - sine * each[i]
    return to_angles


def _merged(children: Tensor) -> Tensor:
    r"""Tiles of twice the size from stacks of the factors $A, C, D, B$ of each, under one another.

    Rows and columns are in blocks $I_1, I_2, J_1, J_2$: $D$ acts on the rows $I_2, J_1$ of $B$, which acts on
    $I_2, J_2$; $C$ on the rows $I_1, J_2$; then $A$ on the rows $I_1, J_1$ of both.
    """
    a, c, d, b = children.unflatten(0, (4, -1))
    h = a.shape[-1] // 2
    db, cb, zero = d[..., :h] @ b[:, :h], c[..., h:] @ b[:, h:], torch.zeros_like(a[..., :h])
    rows_d = torch.cat([zero, db[..., :h], d[..., h:], db[..., h:]], -1)
    rows_c = torch.cat([c[..., :h], cb[..., :h], zero, cb[..., h:]], -1)
    rows_a = a @ torch.cat([rows_c[:, :h], rows_d[:, h:]], 1)
    return torch.cat([rows_a[:, :h], rows_d[:, :h], rows_a[:, h:], rows_c[:, h:]], 1)


def _merged_backward(children: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of `_merged` for its children, in the same order."""
    a, c, d, b = children.unflatten(0, (4, -1))
    h = a.shape[-1] // 2
    db, cb, zero = d[..., :h] @ b[:, :h], c[..., h:] @ b[:, h:], torch.zeros_like(a[:, :h, :h])
    upper = torch.cat([c[:, :h, :h], cb[:, :h, :h], zero, cb[:, :h, h:]], -1)
    lower = torch.cat([zero, db[:, h:, :h], d[:, h:, h:], db[:, h:, h:]], -1)
    to_i1, to_i2, to_j1, to_j2 = gradient.split(h, 1)
    to_rows_a = torch.cat([to_i1, to_j1], 1)
    to_a = to_rows_a @ torch.cat([upper, lower], 1).mT
    to_i1, to_j1 = (a.mT @ to_rows_a).split(h, 1)
    to_d, to_c = torch.cat([to_i2, to_j1], 1), torch.cat([to_i1, to_j2], 1)
    to_db, to_cb = (torch.cat([rows[..., h : 2 * h], rows[..., 3 * h :]], -1) for rows in (to_d, to_c))
    to_b = torch.cat([d[..., :h].mT @ to_db, c[..., h:].mT @ to_cb], 1)
    to_d = torch.cat([to_db @ b[:, :h].mT, to_d[..., 2 * h : 3 * h]], -1)
    to_c = torch.cat([to_c[..., :h], to_cb @ b[:, h:].mT], -1)
    return torch.cat([to_a, to_c, to_d, to_b])


def _composed(halves: Tensor, tiles: Tensor) -> Tensor:
    """T(I1) X T(I2); the first half of the stack are the T(I1)."""
    first, second = halves.chunk(2)
    h = first.shape[-1]
    right = torch.cat([tiles[..., :h], tiles[..., h:] @ second], -1)
    return torch.cat([first @ right[:, :h], right[:, h:]], 1)


def _composed_backward(halves: Tensor, tiles: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of `_composed` for the halves and for the tiles."""
    first, second = halves.chunk(2)
    h = first.shape[-1]
    upper = torch.cat([tiles[:, :h, :h], tiles[:, :h, h:] @ second], -1)
    to_first = gradient[:, :h] @ upper.mT
    to_right = torch.cat([first.mT @ gradient[:, :h], gradient[:, h:]], 1)
    to_second = tiles[..., h:].mT @ to_right[..., h:]
    to_tiles = torch.cat([to_right[..., :h], to_right[..., h:] @ second.mT], -1)
    return torch.cat([to_first, to_second]), to_tiles
