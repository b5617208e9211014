r"""Triangles: all rotations within one block of coordinates, as one orthogonal matrix.

The product of the rotations of a block $I = I_1 \cup I_2$ is made of those of its halves and the tile between them,

$$ T(I) = T(I_1)\; X(I_1, I_2)\; T(I_2), $$

for all blocks at once: one step for each power of two. Tiles have their first block from last to first, so the columns
of a triangle are from last to first, those of $I_2$ before those of $I_1$; its rows are from first to last.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.linalg.givens.tiles import merged, merged_backward, rotations, rotations_backward


class Level(NamedTuple):
    """Triangles of one size, and all tiles of half that size: theirs first, then the parts of larger ones."""

    triangles: Tensor
    tiles: Tensor

    @property
    def own(self) -> Tensor:
        return self.tiles[: self.triangles.shape[0]].contiguous()

    @property
    def parts(self) -> Tensor:
        return self.tiles[self.triangles.shape[0] :].unflatten(0, (4, -1))


def triangle_levels(angles: Tensor, size: int) -> list[Level]:
    """Triangles of size 2, 4, ..., `size`."""
    tiles = rotations(angles)
    blocks = 2 * angles.shape[0] // (size * (size - 1))
    levels = [Level(tiles[: blocks * size // 2].flip(-1).contiguous(), tiles)]
    while levels[-1].triangles.shape[0] > blocks:
        tiles = merged(levels[-1].parts)
        own = tiles[: levels[-1].triangles.shape[0] // 2].contiguous()
        levels.append(Level(_composed(levels[-1].triangles, own), tiles))
    return levels


def triangle_levels_backward(levels: list[Level], gradient: Tensor) -> Tensor:
    """The gradient of the last triangles of `triangle_levels` for the angles."""
    to_parts = gradient[:0]
    for level, smaller in zip(levels[:0:-1], levels[-2::-1], strict=True):
        gradient, to_own = _composed_backward(smaller.triangles, level, gradient)
        to_parts = merged_backward(smaller.parts, level.tiles, _joined(to_own, to_parts)).flatten(0, 1)
    return rotations_backward(levels[0].tiles, _joined(gradient.flip(-1), to_parts))


def _composed(halves: Tensor, tiles: Tensor) -> Tensor:
    """T(I1) X T(I2), where the first of the `halves` are the T(I1)."""
    first, second = halves.chunk(2)
    half = first.shape[-1]
    product = torch.cat([torch.bmm(tiles[:, :, half:], second), tiles[:, :, :half]], -1)
    return torch.cat([torch.bmm(first, product[:, :half]), product[:, half:]], 1)


def _composed_backward(halves: Tensor, level: Level, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of `_composed` for the halves and for the tiles."""
    first, second = halves.chunk(2)
    half, tiles = first.shape[-1], level.own
    # The upper rows of X T(I2) are what the first half has turned into those of the result.
    upper = torch.bmm(first.mT, level.triangles[:, :half])
    to_first = torch.bmm(gradient[:, :half], upper.mT)
    to_product = torch.cat([torch.bmm(first.mT, gradient[:, :half]), gradient[:, half:]], 1)
    to_second = torch.bmm(tiles[:, :, half:].mT, to_product[:, :, :half])
    to_tiles = torch.cat([to_product[:, :, half:], torch.bmm(to_product[:, :, :half], second.mT)], -1)
    return torch.cat([to_first, to_second]), to_tiles


def _joined(first: Tensor, others: Tensor) -> Tensor:
    """One stack of two, in the memory order of the second."""
    # As (rows, columns, tiles) if the index is the fastest, so that nothing is transposed but the few first ones.
    if others.shape[0] > 1 and others.stride(0) == 1:
        return torch.cat([first.permute(1, 2, 0), others.permute(1, 2, 0)], -1).permute(2, 0, 1)
    return torch.cat([first, others])
