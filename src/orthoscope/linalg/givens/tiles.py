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

from collections.abc import Callable

import torch
from torch import Tensor

# Elementwise products are for halves of at most so many coordinates, in stacks of at least so many tiles.
_TINY, _MANY = 4, 256


def rotations(angles: Tensor) -> Tensor:
    r"""Tiles of size 1, $\begin{pmatrix} \cos\theta & -\sin\theta \\ \sin\theta & \cos\theta \end{pmatrix}$."""
    cosine, sine = angles.cos(), angles.sin()
    return torch.stack([cosine, -sine, sine, cosine]).view(2, 2, -1).permute(2, 0, 1)


def rotations_backward(tiles: Tensor, gradient: Tensor) -> Tensor:
    r"""$\dot\theta = \langle G, \partial R/\partial\theta\rangle = c\,(g_{21} - g_{12}) - s\,(g_{11} + g_{22})$."""
    cosine, sine = tiles[:, 0, 0], tiles[:, 1, 0]
    return cosine * (gradient[:, 1, 0] - gradient[:, 0, 1]) - sine * (gradient[:, 0, 0] + gradient[:, 1, 1])


def tile_levels(angles: Tensor, size: int) -> list[Tensor]:
    """Tiles of size 1, 2, 4, ..., `size`: each is the four-fold merge of the one before."""
    levels = [rotations(angles)]
    while levels[-1].shape[-1] < 2 * size:
        levels.append(merged(levels[-1].unflatten(0, (4, -1))))
    return levels


def tile_levels_backward(levels: list[Tensor], gradient: Tensor) -> Tensor:
    """The gradient of the last of `tile_levels` for the angles. It is overwritten."""
    for tiles, smaller in zip(levels[:0:-1], levels[-2::-1], strict=True):
        gradient = merged_backward(smaller.unflatten(0, (4, -1)), tiles, gradient).flatten(0, 1)
    return rotations_backward(levels[0], gradient)


def merged(children: Tensor) -> Tensor:
    """Tiles of twice the size from `(4, tiles, 2h, 2h)`, the factors A, C, D, B of each."""
    product = _product_of(children)
    a, c, d, b = _in_order(children).unbind(0)
    count, h = a.shape[0], a.shape[-1] // 2
    tiles = _blank(children, 4 * h, 4 * h)
    blocks = tiles.view(count, 2, 2, h, 4, h)
    even, odd = blocks[:, :, 0], blocks[:, :, 1]
    even[:, :, :, 0::3] = product(d[:, :, :h], b[:, :h]).view(count, 2, h, 2, h)
    even[:, :, :, 1] = 0
    even[:, :, :, 2] = d[:, :, h:].view(count, 2, h, h)
    odd[:, :, :, 0::3] = product(c[:, :, h:], b[:, h:]).view(count, 2, h, 2, h)
    odd[:, :, :, 1] = c[:, :, :h].view(count, 2, h, h)
    odd[:, :, :, 2] = 0
    middle = tiles[:, h : 3 * h]
    # Copied, because it is overwritten and automatic differentiation may need it.
    middle.copy_(product(a, middle.clone()))
    return tiles


def merged_backward(children: Tensor, tiles: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of `merged` for its children, given the tiles and their gradient, which is overwritten."""
    product = _product_of(children)
    gradient = _index_last(gradient) if _is_index_last(children) else gradient
    a, c, d, b = _in_order(children).unbind(0)
    count, h = a.shape[0], a.shape[-1] // 2
    result = _blank(children, 2 * h, 2 * h, 4)
    to_a, to_c, to_d, to_b = result.unbind(0)
    to_middle = gradient[:, h : 3 * h]
    # What A met is what it turned into the tiles' middle rows, turned back.
    to_a.copy_(product(to_middle, product(a.mT, tiles[:, h : 3 * h]).mT))
    to_middle.copy_(product(a.mT, to_middle))
    blocks = gradient.view(count, 2, 2, h, 4, h)
    even, odd = blocks[:, :, 0], blocks[:, :, 1]
    to_product = _blank(children, 2 * h, 2 * h)
    to_product.view(count, 2, h, 2, h).copy_(even[:, :, :, 0::3])
    to_d[:, :, :h] = product(to_product, b[:, :h].mT)
    to_d[:, :, h:].view(count, 2, h, h).copy_(even[:, :, :, 2])
    to_b[:, :h] = product(d[:, :, :h].mT, to_product)
    to_product.view(count, 2, h, 2, h).copy_(odd[:, :, :, 0::3])
    to_c[:, :, h:] = product(to_product, b[:, h:].mT)
    to_c[:, :, :h].view(count, 2, h, h).copy_(odd[:, :, :, 1])
    to_b[:, h:] = product(c[:, :, h:].mT, to_product)
    return result


def _is_index_last(children: Tensor) -> bool:
    return children.shape[-1] <= 2 * _TINY and children.shape[1] >= _MANY


def _product_of(children: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return _elementwise_product if _is_index_last(children) else torch.bmm


def _elementwise_product(left: Tensor, right: Tensor) -> Tensor:
    columns, rows = left.unsqueeze(-1).unbind(2), right.unsqueeze(1).unbind(2)
    total = columns[0] * rows[0]
    for column, row in zip(columns[1:], rows[1:], strict=True):
        total.addcmul_(column, row)
    return total


def _blank(children: Tensor, rows: int, columns: int, *stack: int) -> Tensor:
    """An empty stack of matrices, as many as each child has and in the same memory order."""
    tiles = children.shape[1]
    if not _is_index_last(children):
        return children.new_empty(*stack, tiles, rows, columns)
    return children.new_empty(rows, columns, *stack, tiles).movedim((0, 1), (-2, -1))


def _in_order(children: Tensor) -> Tensor:
    """The children in the memory order in which they are multiplied: the larger ones contiguous."""
    # As a transposition of two dimensions, several times as fast as of three.
    return children if _is_index_last(children) else children.flatten(0, 1).flatten(1).contiguous().view(children.shape)


def _index_last(tiles: Tensor) -> Tensor:
    return tiles.flatten(1).mT.contiguous().mT.view(tiles.shape)
