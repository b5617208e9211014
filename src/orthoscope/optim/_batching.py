"""Stacks of parameters with equal shapes: one batched call in place of many small ones."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from orthoscope.linalg import weight_matrix
from orthoscope.linalg.orthogonalize import stack_length

Key = TypeVar("Key", bound=Hashable)


def places(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """The places of equal keys, by key, in the order of their first places."""
    found: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        found.setdefault(key, []).append(place)
    return found


def equal_shapes(tensors: Sequence[Tensor], keys: Sequence[Hashable]) -> Iterator[list[int]]:
    """Yield the indices of tensors with equal shape, dtype, device and key, at most `stack_length` at a time."""
    alike = zip(tensors, keys, strict=True)
    for indices in places((tensor.shape, tensor.dtype, tensor.device, key) for tensor, key in alike).values():
        first = tensors[indices[0]]
        count = stack_length(first.nbytes, first.device.type)
        yield from (indices[start : start + count] for start in range(0, len(indices), count))


@dataclass(frozen=True)
class Stack:
    """Parameters of one shape that share `key`, or, with `rows`, some of the matrices of one batched parameter.

    Every matrix is read as a frame: `(n, k)` with n >= k, a wide matrix transposed.
    """

    parameters: Sequence[Tensor]
    key: Any
    rows: slice | None = None

    def gradients(self) -> Tensor:
        """The gradients of the parameters, as `frames`."""
        return self.frames(gradients(self.parameters))

    def frames(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return one tensor per parameter as frames `(n, k)` or `(batch, n, k)`, in float32 or wider.

        A view of the tensor if it is a single matrix of such a type, so that it can be changed in place; else a copy.
        """
        if self.rows is not None:
            matrices = matrix_stack(tensors[0])[self.rows]
        elif len(tensors) == 1:
            matrices = weight_matrix(tensors[0])
        else:
            matrices = torch.stack([weight_matrix(tensor) for tensor in tensors])
        matrices = matrices.to(torch.promote_types(matrices.dtype, torch.float32))
        return matrices if matrices.shape[-2] >= matrices.shape[-1] else matrices.mT

    def write(self, frames: Tensor, tensors: Sequence[Tensor]) -> None:
        """Copy `frames` into the tensors they stand for; nothing to do if they are views of them."""
        first = tensors[0]
        if frames.untyped_storage().data_ptr() == first.untyped_storage().data_ptr():
            return
        rows, columns = first.shape[-2:] if self.rows is not None else (len(first), first.shape[1:].numel())
        matrices = frames if rows >= columns else frames.mT
        if self.rows is not None:
            matrix_stack(first)[self.rows] = matrices
        elif len(tensors) == 1:
            first.copy_(matrices.reshape(first.shape))
        else:
            torch._foreach_copy_(list(tensors), [matrix.view(first.shape) for matrix in matrices.unbind()])

    def scalars(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return one number per matrix, `()` or `(batch,)`, in float32 or wider."""
        if self.rows is not None:
            values = tensors[0][self.rows]
        else:
            values = tensors[0] if len(tensors) == 1 else torch.stack(list(tensors))
        return values.to(torch.promote_types(values.dtype, torch.float32))

    def write_scalars(self, values: Tensor, tensors: Sequence[Tensor]) -> None:
        """Copy `values` into the tensors they stand for."""
        if self.rows is not None:
            tensors[0][self.rows] = values
        elif len(tensors) == 1:
            tensors[0].copy_(values)
        else:
            torch._foreach_copy_(list(tensors), list(values.unbind()))


def stacks(
    parameters: Sequence[Tensor], batched: bool, key: Callable[[Tensor], Hashable] = lambda parameter: None
) -> Iterator[Stack]:
    """Yield all parameters in stacks of equal shape and `key`; a batched parameter alone, in parts if it is large."""
    keys = [key(parameter) for parameter in parameters]
    if not batched:
        for indices in equal_shapes(parameters, keys):
            yield Stack([parameters[index] for index in indices], keys[indices[0]])
        return
    for parameter, own in zip(parameters, keys, strict=True):
        matrices = matrix_stack(parameter)
        count = stack_length(matrices[0].nbytes, parameter.device.type)
        yield from (Stack([parameter], own, slice(i, i + count)) for i in range(0, len(matrices), count))


def gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients of the parameters that have one."""
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def matrix_stack(batch: Tensor) -> Tensor:
    """`(*batch, rows, columns)` as a view `(batch, rows, columns)`."""
    return batch.view(-1, *batch.shape[-2:])


def frame_product(frame: Tensor, square: Tensor) -> Tensor:
    r"""$XA$ in the memory format of the frame $X$, row- or column-major, so that adding it to $X$ reads in order."""
    if frame.stride(-1) != 1 and frame.stride(-2) == 1:
        return (square.mT @ frame.mT).mT
    return frame @ square
