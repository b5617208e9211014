"""Large products in parts, one core each: no thread waits for another within a product.

For where two inverses run one on a core too. Beside products that share all cores it would be slower: the threads of
such a product stay awake for a while, in the way of these.
"""

import torch
from torch import Tensor

from orthoscope.linalg.parallel import on_cores
from orthoscope.linalg.symmetric import fill_by_strips_, hermitian_product

# With more cores two inverses share all of them. Of fewer columns there are too few strips to deal out evenly.
_CORES = 2
_COLUMNS = 1024


def gram_on_cores(frame: Tensor) -> Tensor:
    r"""$Y^\top Y$ of a real matrix $(n, k)$."""
    size = frame.shape[-1]
    if not _is_worth_it(frame, size):
        return hermitian_product(frame.mT, frame)
    gram = frame.new_empty(size, size)
    fill_by_strips_(gram, frame.mT, frame, on_cores)
    return gram


def product_on_cores(left: Tensor, right: Tensor) -> Tensor:
    """$AB$ of matrices, some rows of it on every core."""
    if not _is_worth_it(left, right.shape[-1]):
        return left @ right
    product = left.new_empty(len(left), right.shape[-1])
    on_cores(lambda rows: torch.mm(left[rows], right, out=product[rows]), _row_blocks(len(left)))
    return product


def add_product_on_cores_(target: Tensor, left: Tensor, right: Tensor) -> Tensor:
    r"""$T \leftarrow T + AB$ likewise."""
    if not _is_worth_it(left, right.shape[-1]):
        return target.addmm_(left, right)
    on_cores(lambda rows: target[rows].addmm_(left[rows], right), _row_blocks(len(left)))
    return target


def _row_blocks(rows: int) -> list[slice]:
    block = -(-rows // torch.get_num_threads())
    return [slice(start, start + block) for start in range(0, rows, block)]


def _is_worth_it(matrix: Tensor, columns: int) -> bool:
    return matrix.device.type == "cpu" and torch.get_num_threads() == _CORES and columns >= _COLUMNS
