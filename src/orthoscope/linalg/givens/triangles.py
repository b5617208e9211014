r"""Triangles: all rotations within one block of coordinates, as one orthogonal matrix.

The product of the rotations of a block $I = I_1 \cup I_2$ is made of those of its halves and the tile between them,

$$ T(I) = T(I_1)\; X(I_1, I_2)\; T(I_2), $$

for all blocks at once: one step for each power of two. Tiles have their first block from last to first, so the columns
of a triangle are from last to first, those of $I_2$ before those of $I_1$; its rows are from first to last.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.linalg.givens.tiles import Merge, merged, merged_backward, rotations, rotations_backward


class Step(NamedTuple):
    """One doubling: the triangles of half the size, T(I1) first, the tiles between them, X T(I2), and the merge."""

    halves: Tensor
    tiles: Tensor
    product: Tensor
    merge: Merge


class Triangles(NamedTuple):
    """Triangles of the largest size, and what their gradient needs."""

    last: Tensor
    rotations: Tensor
    steps: list[Step]


def triangles_of(angles: Tensor, size: int) -> Triangles:
    """Triangles of size `size`. Of every smaller size, tiles between triangles come first, then parts of larger ones."""
    tiles = leaves = rotations(angles)
    blocks = 2 * angles.shape[0] // (size * (size - 1))
    count, steps = blocks * size // 2, []
    triangles = leaves[:count].flip(-1).contiguous()
    while count > blocks:
        merge = merged(tiles[count:].unflatten(0, (4, -1)))
        tiles, count = merge.tiles, count // 2
        steps.append(_step(triangles, tiles[:count].contiguous(), merge))
        triangles = _composed(steps[-1])
    return Triangles(triangles, leaves, steps)


def triangles_backward(triangles: Triangles, gradient: Tensor) -> Tensor:
    """The gradient of `triangles_of` for the angles."""
    to_parts = gradient[:0]
    for step in reversed(triangles.steps):
        gradient, to_tiles = _composed_backward(step, gradient)
        to_parts = merged_backward(step.merge, torch.cat([to_tiles, to_parts])).flatten(0, 1)
    return rotations_backward(triangles.rotations, torch.cat([gradient.flip(-1), to_parts]))


def _step(halves: Tensor, tiles: Tensor, merge: Merge) -> Step:
    half = halves.shape[-1]
    product = torch.cat([torch.bmm(tiles[:, :, half:], halves[tiles.shape[0] :]), tiles[:, :, :half]], -1)
    return Step(halves, tiles, product, merge)


def _composed(step: Step) -> Tensor:
    count, half = step.tiles.shape[0], step.halves.shape[-1]
    return torch.cat([torch.bmm(step.halves[:count], step.product[:, :half]), step.product[:, half:]], 1)


def _composed_backward(step: Step, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of `_composed` for the halves and for the tiles."""
    first, second = step.halves.chunk(2)
    half = first.shape[-1]
    to_first = torch.bmm(gradient[:, :half], step.product[:, :half].mT)
    to_product = torch.cat([torch.bmm(first.mT, gradient[:, :half]), gradient[:, half:]], 1)
    to_second = torch.bmm(step.tiles[:, :, half:].mT, to_product[:, :, :half])
    to_tiles = torch.cat([to_product[:, :, half:], torch.bmm(to_product[:, :, :half], second.mT)], -1)
    return torch.cat([to_first, to_second]), to_tiles
