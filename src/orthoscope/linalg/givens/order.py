r"""Which coordinates each angle turns, and where tiles find their angles.

The product is taken in the order $(0,1), (0,2), \dots, (0,n-1), (1,2), \dots$. Rotations that share no coordinate
commute, so every order in which each coordinate meets its partners in turn is the same product: tiles have one.
"""

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

# Pivots a block: below, there are too many blocks; above, tiles take more work than they save.
_SMALLEST, _LARGEST = 16, 128
# From so many blocks on, the rows that fill up the last one do not count.
_MANY = 4
# So many coordinates, or three quarters of them, are one block all the same: there is nothing but one triangle.
_WHOLE = 256
# Matrix elements of the tiles made at once, a megabyte or two: what a core has near it.
_CHUNK_ELEMENTS = 1 << 19


class Chunk(NamedTuple):
    """Tiles that are made together: the blocks they join, and the places of their angles."""

    blocks: tuple[tuple[int, int], ...]
    places: Tensor


class Order(NamedTuple):
    """Blocks of `size` coordinates, a power of two; the places of the angles within blocks; tiles between blocks.

    Blocks are filled up with pairs that do not exist. Their place is the one after the last angle, which is to hold 0.
    """

    size: int
    pivot_blocks: int
    row_blocks: int
    triangles: Tensor
    chunks: tuple[Chunk, ...]


def givens_count(rows: int, pivots: int) -> int:
    """How many pairs have one of the first `pivots` coordinates and a later one: pivots (2 rows - pivots - 1) / 2."""
    return pivots * (2 * rows - pivots - 1) // 2


def givens_pairs(rows: int, pivots: int) -> list[tuple[int, int]]:
    """The pair of coordinates that each angle turns, in the order of the product."""
    return [(pivot, other) for pivot in range(pivots) for other in range(pivot + 1, rows)]


def tile_order(rows: int, pivots: int, batch: int, device: torch.device) -> Order:
    """How a product of `rows` coordinates, `pivots` of them turned with all later ones, is cut into tiles."""
    size = _block_size(rows, pivots)
    pivot_blocks, row_blocks = -(-pivots // size), -(-rows // size)
    corners = [(pivot, other) for pivot in range(pivot_blocks) for other in range(pivot + 1, row_blocks)]
    together = max(1, _CHUNK_ELEMENTS // (batch * (2 * size) ** 2))
    chunks = []
    for start in range(0, len(corners), together):
        blocks = tuple(corners[start : start + together])
        first, second = _tile_pairs(torch.tensor(blocks, device=device) * size, size)
        chunks.append(Chunk(blocks, _places(first, second, rows, pivots)))
    first, second = _triangle_pairs(torch.arange(pivot_blocks, device=device) * size, size)
    return Order(size, pivot_blocks, row_blocks, _places(first, second, rows, pivots), tuple(chunks))


@lru_cache(maxsize=32)
def remembered_order(rows: int, pivots: int, batch: int, device: torch.device) -> Order:
    """`tile_order`, kept for the next step: two bytes for each element of a square frame.

    Not to be called under `torch.func`, whose tensors must not outlive the call.
    """
    with torch.inference_mode(False):
        return tile_order(rows, pivots, batch, device)


def _block_size(rows: int, pivots: int) -> int:
    largest = _LARGEST // 2 if _LARGEST < rows < _MANY * _LARGEST else _LARGEST
    largest = _WHOLE if 3 * _WHOLE // 4 <= rows <= _WHOLE else largest
    return 1 << (min(rows, max(min(pivots, largest), _SMALLEST)) - 1).bit_length()


def _tile_pairs(corners: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """All pairs of the tiles with these corners, as `tile_levels` takes them."""
    first, second = corners.unbind(1)
    while size > 1:
        size //= 2
        first, second = _quartered(first, second, size)
    return first, second


def _triangle_pairs(starts: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """All pairs within the blocks that start there, as `triangle_levels` takes them.

    That is, for every power of two: the tiles between the halves of blocks first, then the parts of larger tiles; of
    the blocks, all first halves, then all second halves.
    """
    first = second = starts[:0]
    while size > 1:
        size //= 2
        first, second = _quartered(first, second, size)
        first, second = torch.cat([starts, first]), torch.cat([starts + size, second])
        starts = torch.cat([starts, starts + size])
    return first, second


def _quartered(first: Tensor, second: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Corners of the four parts of tiles: all first parts, all second parts, and so on."""
    return (
        torch.cat([first, first, first + half, first + half]),
        torch.cat([second, second + half, second, second + half]),
    )


def _places(first: Tensor, second: Tensor, rows: int, pivots: int) -> Tensor:
    place = first * (2 * rows - first - 1) // 2 + second - first - 1
    exists = (first < pivots) & (second < rows)
    return torch.where(exists, place, givens_count(rows, pivots)).to(torch.int32)
