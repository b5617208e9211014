r"""Triangles: all rotations within one block of coordinates, as one orthogonal matrix.

The product of the rotations of a block $I = I_1 \cup I_2$ is made of those of its halves and the tile between them,

$$ T(I) = T(I_1)\; X(I_1, I_2)\; T(I_2), $$

for all blocks at once: one step for each power of two.
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
    levels = [Level(tiles[: blocks * size // 2].contiguous(), tiles)]
    while levels[-1].triangles.shape[0] > blocks:
        tiles = merged(levels[-1].parts)
        own = tiles[: levels[-1].triangles.shape[0] // 2].contiguous()
        levels.append(Level(_composed(levels[-1].triangles, own), tiles))
    return levels


def triangle_levels_backward(levels: list[Level], gradient: Tensor) -> Tensor:
    """The gradient of the last triangles of `triangle_levels` for the angles."""
    to_parts = gradient[:0]
    for level, smaller in zip(levels[:0:-1], levels[-2::-1], strict=True):
        gradient, to_own = _composed_backward(smaller.triangles, level.own, gradient)
        to_parts = merged_backward(smaller.parts, torch.cat([to_own, to_parts])).flatten(0, 1)
    return rotations_backward(levels[0].tiles, torch.cat([gradient, to_parts]))


def _composed(triangles: Tensor, tiles: Tensor) -> Tensor:
    """T(I1) X T(I2), where the first half of `triangles` are the T(I1)."""
    first, second = triangles.chunk(2)
    half = first.shape[-1]
    product = torch.cat([tiles[:, :, :half], tiles[:, :, half:] @ second], -1)
    return torch.cat([first @ product[:, :half], product[:, half:]], 1)


def _composed_backward(triangles: Tensor, tiles: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of `_composed` for the triangles and for the tiles."""
    first, second = triangles.chunk(2)
    half = first.shape[-1]
    upper = torch.cat([tiles[:, :half, :half], tiles[:, :half, half:] @ second], -1)
    to_first = gradient[:, :half] @ upper.mT
    to_product = torch.cat([first.mT @ gradient[:, :half], gradient[:, half:]], 1)
    to_second = tiles[:, :, half:].mT @ to_product[:, :, half:]
    to_tiles = torch.cat([to_product[:, :, :half], to_product[:, :, half:] @ second.mT], -1)
    return torch.cat([to_first, to_second]), to_tiles
