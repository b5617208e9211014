r"""Tiles: all rotations between two blocks of coordinates, as one orthogonal matrix, and their derivatives.

A tile of size $s$ is the product of the $s^2$ rotations between blocks $I$ and $J$ of $s$ coordinates, a matrix of
$2s$ rows, those of $I$ first. With halves $I = I_1 \cup I_2$, $J = J_1 \cup J_2$ and tiles $A, C, D, B$ of half the
size, $h$,

$$ X(I, J) = A(I_1, J_1)\; C(I_1, J_2)\, D(I_2, J_1)\; B(I_2, J_2), $$

where $C$ and $D$ commute. What a factor leaves alone, and blocks that stay zero, are skipped: 20 h³ multiply-adds.

Every stack is `(tiles, 2s, 2s)`. While tiles are tiny their index is the fastest in memory and products are sums of
elementwise ones: a library's product of two 2 x 2 matrices costs more to call than to compute.
"""

import torch
from torch import Tensor

# Halves of at most so many coordinates are multiplied elementwise.
_TINY = 4


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
    """The gradient of the last of `tile_levels` for the angles."""
    for level in levels[-2::-1]:
        gradient = merged_backward(level.unflatten(0, (4, -1)), gradient).flatten(0, 1)
    return rotations_backward(levels[0], gradient)


def merged(children: Tensor) -> Tensor:
    """Tiles of twice the size from `(4, tiles, 2h, 2h)`, the factors A, C, D, B of each."""
    a, c, d, b = children.unbind(0)
    h = a.shape[-1] // 2
    # Columns (I2, J2) of C B, rows (I1, J2), and of D B, rows (I2, J1); A meets their rows I1 and J1.
    c_b, d_b = _product(c[:, :, h:], b[:, h:]), _product(d[:, :, :h], b[:, :h])
    a_meets = _below(c_b[:, :h], d_b[:, h:])
    tile = _blank(a, 4 * h, 4 * h)
    blocks = _in_blocks(tile, h)
    blocks[:, 0::2, :, 1::2] = _in_blocks(_product(a, a_meets), h)
    blocks[:, 3:, :, 1::2] = _in_blocks(c_b[:, h:], h)
    blocks[:, 1:2, :, 1::2] = _in_blocks(d_b[:, :h], h)
    blocks[:, 0::2, :, :1] = _in_blocks(_product(a[:, :, :h], c[:, :h, :h]), h)
    blocks[:, 0::2, :, 2:3] = _in_blocks(_product(a[:, :, h:], d[:, h:, h:]), h)
    blocks[:, 3, :, 0] = c[:, h:, :h]
    blocks[:, 1, :, 2] = d[:, :h, h:]
    blocks[:, 1, :, 0] = 0
    blocks[:, 3, :, 2] = 0
    return tile.contiguous() if h == _TINY else tile


def merged_backward(children: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of `merged` for its children."""
    a, c, d, b = children.unbind(0)
    h = a.shape[-1] // 2
    a_meets = _below(_product(c[:, :h, h:], b[:, h:]), _product(d[:, h:, :h], b[:, :h]))
    blocks = _in_blocks(gradient, h)
    result = _blank(a, 2 * h, 2 * h, 4)
    to_a, to_c, to_d, to_b = result.unbind(0)
    to_product = _matrices(blocks[:, 0::2, :, 1::2], a)
    to_a.copy_(_product(to_product, a_meets.mT))
    to_product = _product(a.mT, to_product)
    to_c_b = _below(to_product[:, :h], _matrices(blocks[:, 3:, :, 1::2], a))
    to_d_b = _below(_matrices(blocks[:, 1:2, :, 1::2], a), to_product[:, h:])
    to_c[:, :, h:] = _product(to_c_b, b[:, h:].mT)
    to_d[:, :, :h] = _product(to_d_b, b[:, :h].mT)
    to_b[:, h:] = _product(c[:, :, h:].mT, to_c_b)
    to_b[:, :h] = _product(d[:, :, :h].mT, to_d_b)
    to_first, to_third = _matrices(blocks[:, 0::2, :, :1], a), _matrices(blocks[:, 0::2, :, 2:3], a)
    to_a[:, :, :h] += _product(to_first, c[:, :h, :h].mT)
    to_a[:, :, h:] += _product(to_third, d[:, h:, h:].mT)
    to_c[:, :h, :h] = _product(a[:, :, :h].mT, to_first)
    to_d[:, h:, h:] = _product(a[:, :, h:].mT, to_third)
    to_c[:, h:, :h] = blocks[:, 3, :, 0]
    to_d[:, :h, h:] = blocks[:, 1, :, 2]
    return result


def _product(left: Tensor, right: Tensor) -> Tensor:
    if not _index_is_last(left):
        return left @ right
    columns, rows = left.unsqueeze(-1).unbind(2), right.unsqueeze(1).unbind(2)
    total = columns[0] * rows[0]
    for column, row in zip(columns[1:], rows[1:], strict=True):
        total = torch.addcmul(total, column, row)
    return total


def _index_is_last(stack: Tensor) -> bool:
    return stack.stride(0) == 1


def _blank(like: Tensor, rows: int, columns: int, *stack: int) -> Tensor:
    """An empty stack of matrices in the memory order of `like`."""
    if not _index_is_last(like):
        return like.new_empty(*stack, like.shape[0], rows, columns)
    return like.new_empty(rows, columns, *stack, like.shape[0]).movedim((0, 1), (-2, -1))


def _below(upper: Tensor, lower: Tensor) -> Tensor:
    joined = _blank(upper, 2 * upper.shape[-2], upper.shape[-1])
    joined[:, : upper.shape[-2]] = upper
    joined[:, upper.shape[-2] :] = lower
    return joined


def _in_blocks(matrices: Tensor, size: int) -> Tensor:
    """`(stack, rows, columns)` as `(stack, row block, row, column block, column)`."""
    return matrices.unflatten(-1, (-1, size)).unflatten(-3, (-1, size))


def _matrices(blocks: Tensor, like: Tensor) -> Tensor:
    """Blocks that were picked from a matrix as a matrix, in the memory order of `like`."""
    _, row_blocks, size, column_blocks, _ = blocks.shape
    matrices = _blank(like, row_blocks * size, column_blocks * size)
    _in_blocks(matrices, size).copy_(blocks)
    return matrices
