r"""Tiles: all rotations between two blocks of coordinates, as one orthogonal matrix, and their derivatives.

A tile of size $s$ is the product of the $s^2$ rotations between blocks $I$ and $J$ of $s$ coordinates, a matrix of
$2s$ rows. With halves $I = I_1 \cup I_2$, $J = J_1 \cup J_2$ and tiles $A, C, D, B$ of half the size, $h$,

$$ X(I, J) = A(I_1, J_1)\; C(I_1, J_2)\, D(I_2, J_1)\; B(I_2, J_2), $$

where $C$ and $D$ commute. Rows and columns are those of $I$ from its last coordinate to its first, then those of $J$
from first to last, so in blocks $I_2, I_1, J_1, J_2$: $A$ has the two in the middle, $D$ the even, $C$ the odd ones.
$CDB$ is written block by block; $A$ then meets its middle rows: 24 h³ multiply-adds.

Every stack is `(tiles, 2s, 2s)`. While tiles are tiny their index is the fastest in memory and products are sums of
elementwise ones: a library's product of two 2 x 2 matrices costs more to call than to compute.
"""

from typing import NamedTuple

import torch
from torch import Tensor

# Halves of at most so many coordinates are multiplied elementwise.
_TINY = 4


class Merge(NamedTuple):
    """Tiles, the children `(4, tiles, 2h, 2h)` they were made of, A, C, D and B, and the rows of CDB that A met."""

    tiles: Tensor
    children: Tensor
    middle: Tensor


def rotations(angles: Tensor) -> Tensor:
    r"""Tiles of size 1, $\begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}$."""
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([cosine, -sine, sine, cosine]).view(2, 2, -1).permute(2, 0, 1)


def rotations_backward(tiles: Tensor, gradient: Tensor) -> Tensor:
    r"""$\dot\theta = \langle G, \partial R/\partial\theta\rangle = c\,(g_{21} - g_{12}) - s\,(g_{11} + g_{22})$."""
    cosine, sine = tiles[:, 0, 0], tiles[:, 1, 0]
    return cosine * (gradient[:, 1, 0] - gradient[:, 0, 1]) - sine * (gradient[:, 0, 0] + gradient[:, 1, 1])


def merged(children: Tensor) -> Merge:
    """Tiles of twice the size."""
    a, c, d, b = children.unbind(0)
    h = a.shape[-1] // 2
    product = _elementwise_product if h <= _TINY else torch.bmm
    tiles = _blank(children, 4 * h, 4 * h)
    blocks = tiles.unflatten(2, (4, h)).unflatten(1, (2, 2, h))
    even, odd = blocks[:, :, 0], blocks[:, :, 1]
    even[:, :, :, 0::3] = _in_blocks(product(d[:, :, :h], b[:, :h]), h)
    even[:, :, :, 1] = 0
    even[:, :, :, 2] = d[:, :, h:].unflatten(1, (2, h))
    odd[:, :, :, 0::3] = _in_blocks(product(c[:, :, h:], b[:, h:]), h)
    odd[:, :, :, 1] = c[:, :, :h].unflatten(1, (2, h))
    odd[:, :, :, 2] = 0
    middle = tiles[:, h : 3 * h].clone()
    tiles[:, h : 3 * h] = product(a, middle)
    return Merge(_index_first(tiles) if h == _TINY else tiles, children, middle)


def merged_backward(merge: Merge, gradient: Tensor) -> Tensor:
    """The gradient of `merged` for its children. The gradient given for the tiles is overwritten."""
    a, c, d, b = merge.children.unbind(0)
    h = a.shape[-1] // 2
    product = _elementwise_product if h <= _TINY else torch.bmm
    gradient = _index_last(gradient) if h == _TINY else gradient
    result = _blank(merge.children, 2 * h, 2 * h, 4)
    to_a, to_c, to_d, to_b = result.unbind(0)
    to_middle = gradient[:, h : 3 * h]
    to_a.copy_(product(to_middle, merge.middle.mT))
    to_middle.copy_(product(a.mT, to_middle))
    blocks = gradient.unflatten(2, (4, h)).unflatten(1, (2, 2, h))
    even, odd = blocks[:, :, 0], blocks[:, :, 1]
    to_d_b, to_c_b = _blank(merge.children, 2 * h, 2 * h, 2).unbind(0)
    _in_blocks(to_d_b, h).copy_(even[:, :, :, 0::3])
    _in_blocks(to_c_b, h).copy_(odd[:, :, :, 0::3])
    to_d[:, :, :h] = product(to_d_b, b[:, :h].mT)
    to_d[:, :, h:].unflatten(1, (2, h)).copy_(even[:, :, :, 2])
    to_c[:, :, h:] = product(to_c_b, b[:, h:].mT)
    to_c[:, :, :h].unflatten(1, (2, h)).copy_(odd[:, :, :, 1])
    to_b[:, :h] = product(d[:, :, :h].mT, to_d_b)
    to_b[:, h:] = product(c[:, :, h:].mT, to_c_b)
    return result


def tile_merges(angles: Tensor, size: int) -> list[Merge]:
    """Tiles of size 2, 4, ..., `size`, each the four-fold merge of the one before."""
    tiles, merges = rotations(angles), []
    while tiles.shape[-1] < 2 * size:
        merges.append(merged(tiles.unflatten(0, (4, -1))))
        tiles = merges[-1].tiles
    return merges


def tile_merges_backward(merges: list[Merge], gradient: Tensor) -> Tensor:
    """The gradient of the last of `tile_merges` for the angles."""
    for merge in reversed(merges):
        gradient = merged_backward(merge, gradient).flatten(0, 1)
    return rotations_backward(merges[0].children.flatten(0, 1), gradient)


def _elementwise_product(left: Tensor, right: Tensor) -> Tensor:
    columns, rows = left.unsqueeze(-1).unbind(2), right.unsqueeze(1).unbind(2)
    total = columns[0] * rows[0]
    for column, row in zip(columns[1:], rows[1:], strict=True):
        total.addcmul_(column, row)
    return total


def _blank(children: Tensor, rows: int, columns: int, *stack: int) -> Tensor:
    """An empty stack of matrices, as many as each child has and in the same memory order."""
    tiles = children.shape[1]
    if children.shape[-1] > 2 * _TINY:
        return children.new_empty(*stack, tiles, rows, columns)
    return children.new_empty(rows, columns, *stack, tiles).movedim((0, 1), (-2, -1))


def _in_blocks(matrices: Tensor, size: int) -> Tensor:
    """`(tiles, 2h, 2h)` as `(tiles, row block, row, column block, column)`."""
    return matrices.unflatten(2, (2, size)).unflatten(1, (2, size))


def _index_first(tiles: Tensor) -> Tensor:
    # As a transposition of two dimensions, several times as fast as of three.
    return tiles.flatten(1).contiguous().unflatten(1, tiles.shape[1:])


def _index_last(tiles: Tensor) -> Tensor:
    return tiles.flatten(1).mT.contiguous().mT.unflatten(1, tiles.shape[1:])
