"""Large rough products in parts, one core each: no thread waits for another within a product.

For where two inverses run one on a core too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, final

import torch
from torch import Tensor

from orthoscope.linalg.onednn import suits
from orthoscope.linalg.parallel import balanced_over_cores, on_cores, on_one_core
from orthoscope.linalg.rough_products import add_rough_product_, rough_hermitian_product, rough_product
from orthoscope.linalg.symmetric import fill_by_strips_

# With more cores two inverses share all of them. Of fewer columns there are too few strips to deal out evenly.
_CORES = 2
_COLUMNS = 1024

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@final
class Cores:
    """How products and tasks are computed: in parts and one task a core if there are several, else as always."""

    def __init__(self, count: int) -> None:
        self.count = count

    def gram(self, frame: Tensor) -> Tensor:
        r"""$Y^\top Y$ of a real matrix $(n, k)$."""
        if self.count == 1:
            return rough_hermitian_product(frame.mT, frame)
        gram = frame.new_empty(frame.shape[-1], frame.shape[-1])
        rows = frame.mT.contiguous() if suits(frame.mT, frame) else frame.mT
        fill_by_strips_(gram, rows, rows.mT, rough_product, run=self._run)
        return gram

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """$AB$ of matrices."""
        found = left.new_empty(len(left), right.shape[-1])
        self.by_rows(lambda rows: rough_product(left[rows], right, out=found[rows]), len(left))
        return found

    def add_product_(self, target: Tensor, left: Tensor, right: Tensor) -> Tensor:
        r"""$T \leftarrow T + AB$."""
        self.by_rows(lambda rows: add_rough_product_(target[rows], left[rows], right), len(left))
        return target

    def each(self, function: Callable[[_Task], Tensor], tasks: Sequence[_Task], cost: int) -> list[Tensor]:
        """`function` of every task, of `cost` multiply-adds."""
        if self.count == 1:
            return balanced_over_cores(function, tasks, [cost] * len(tasks))
        return self._run(function, tasks)

    def copied(self, matrix: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """A copy, in another type if given."""
        copy = torch.empty_like(matrix, dtype=dtype)
        self.by_rows(lambda rows: copy[rows].copy_(matrix[rows]), len(matrix))
        return copy

    def by_rows(self, function: Callable[[slice], object], rows: int) -> None:
        """`function` of blocks of rows, as many as there are cores."""
        block = max(1, -(-rows // self.count))
        blocks = [slice(start, start + block) for start in range(0, rows, block)]
        if self.count == 1:
            for each in blocks:
                function(each)
        else:
            self._run(function, blocks)

    def _run(self, function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        return on_cores(function, tasks, self.count)


@contextmanager
def cores_for(matrix: Tensor) -> Iterator[Cores]:
    """Cores for products of a matrix $(n, k)$ and inverses of its size; on the way this thread stays on one of them.

    Threads that shared an operation stay awake for a while, in the way of tasks that come next: sums between products
    in parts made those take 1.5 times as long.
    """
    threads = torch.get_num_threads()
    if matrix.device.type != "cpu" or threads != _CORES or matrix.shape[-1] < _COLUMNS:
        yield Cores(1)
        return
    with on_one_core():
        yield Cores(threads)
