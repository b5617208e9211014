"""Many small matrices moved by one call: parameters of one shape, stacked in chunks that stay in cache."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orthoscope.linalg import weight_matrix
from orthoscope.linalg.parallel import balanced_over_cores

# A stack larger than the second-level cache is slower than its parts: 1.4 times at 128 x 128.
CHUNK_BYTES = 1 << 19


@dataclass(frozen=True)
class Chunk:
    """Parameters of one shape that are `alike`, or, with `rows`, a slice of the matrices of one batched parameter."""

    parameters: Sequence[Tensor]
    alike: Any
    rows: slice | None = None

    @property
    def cost(self) -> int:
        """Multiply-adds of one product of a step, for all matrices."""
        first = self.parameters[0]
        if self.rows is None:
            rows, columns = first.shape[0], first.shape[1:].numel()
            return len(self.parameters) * rows * columns * min(rows, columns)
        rows, columns = first.shape[-2:]
        return (self.rows.stop - self.rows.start) * rows * columns * min(rows, columns)

    def frames(self, tensors: Sequence[Tensor]) -> Tensor:
        """The tensors, one for each parameter, as frames `(n, k)` or `(batch, n, k)`; wide matrices are transposed.

        A view where one large matrix is on its own, so that it can be changed in place; else a copy. Types
        narrower than float32 are widened.
        """
        if self.rows is not None:
            matrices = matrix_stack(tensors[0])[self.rows]
        elif len(tensors) == 1:
            matrices = as_matrix(tensors[0])
        else:
            matrices = torch.stack([as_matrix(tensor) for tensor in tensors])
        matrices = matrices.to(torch.promote_types(matrices.dtype, torch.float32))
        return matrices if matrices.shape[-2] >= matrices.shape[-1] else matrices.mT

    def write(self, frames: Tensor, tensors: Sequence[Tensor]) -> None:
        """Put what came from `frames` back where it came from."""
        if _shares_memory(frames, tensors):
            return
        first = tensors[0]
        matrices = frames if _is_tall(first, self.rows is not None) else frames.mT
        if self.rows is not None:
            matrix_stack(first)[self.rows] = matrices
        elif len(tensors) == 1:
            first.copy_(matrices.reshape(first.shape))
        else:
            torch._foreach_copy_(list(tensors), [matrix.view(first.shape) for matrix in matrices.unbind()])

    def scalars(self, tensors: Sequence[Tensor]) -> Tensor:
        """One number for each matrix: `()` for a matrix, `(batch,)` for a stack; at least float32."""
        if self.rows is not None:
            values = tensors[0][self.rows]
        else:
            values = tensors[0] if len(tensors) == 1 else torch.stack(list(tensors))
        return values.to(torch.promote_types(values.dtype, torch.float32))

    def write_scalars(self, values: Tensor, tensors: Sequence[Tensor]) -> None:
        """Put what came from `scalars` back where it came from."""
        if self.rows is not None:
            tensors[0][self.rows] = values
        elif len(tensors) == 1:
            tensors[0].copy_(values)
        else:
            torch._foreach_copy_(list(tensors), list(values.unbind()))


def over_chunks(step: Callable[[Chunk], None], parts: Iterable[Chunk]) -> None:
    """One step of every chunk; on a CPU one core each, where that keeps all of them busy."""
    parts = list(parts)
    if all(parameter.device.type == "cpu" for part in parts for parameter in part.parameters):
        balanced_over_cores(step, parts, [part.cost for part in parts])
    else:
        for part in parts:
            step(part)


def gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of parameters that have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def as_matrix(weight: Tensor) -> Tensor:
    """A matrix as it is, a convolution as `(out, in·k·k)`."""
    return weight if weight.ndim == 2 else weight_matrix(weight)


def matrix_stack(batch: Tensor) -> Tensor:
    """`(*batch, rows, columns)` as `(batch, rows, columns)`."""
    return batch.view(-1, *batch.shape[-2:])


def chunks(
    parameters: Sequence[Tensor], batched: bool, alike: Callable[[Tensor], Hashable] = lambda parameter: None
) -> Iterator[Chunk]:
    """All parameters, those of one shape, type, device and equal `alike` together as far as the cache allows."""
    groups: dict[tuple[Hashable, ...], list[Tensor]] = {}
    for parameter in parameters:
        kind = (parameter.shape, parameter.dtype, parameter.device, alike(parameter))
        groups.setdefault(kind, []).append(parameter)
    for key, group in groups.items():
        first = group[0]
        matrix_bytes = (first.shape[-2:].numel() if batched else first.numel()) * first.element_size()
        count = max(1, CHUNK_BYTES // max(1, matrix_bytes))
        if batched:
            total = first.shape[:-2].numel()
            yield from (Chunk([p], key[-1], slice(i, i + count)) for p in group for i in range(0, total, count))
        else:
            yield from (Chunk(group[i : i + count], key[-1]) for i in range(0, len(group), count))


def _is_tall(tensor: Tensor, batched: bool) -> bool:
    rows, columns = tensor.shape[-2:] if batched else (tensor.shape[0], tensor.shape[1:].numel())
    return rows >= columns


def _shares_memory(frames: Tensor, tensors: Sequence[Tensor]) -> bool:
    return frames.untyped_storage().data_ptr() == tensors[0].untyped_storage().data_ptr()
