"""Updates of many parameters orthogonalised by few calls: matrices of one shape, in stacks that stay in cache."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from orthoscope.linalg.orthogonalize import orthogonalize
from orthoscope.linalg.parallel import balanced_over_cores
from orthoscope.optim.batching import CHUNK_BYTES
from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.ownership import orthogonalization_cost

# What an accelerator is given at a time: enough to be busy, little beside the parameters of a model that fills it.
_DEVICE_BYTES = 1 << 26


class Stack(NamedTuple):
    """Matrices of one shape: of each update one `(rows, columns)`, or some `(count, rows, columns)`."""

    indices: list[int]  # of the updates that they are of
    pieces: list[Tensor]

    @property
    def cost(self) -> int:
        first = self.pieces[0]
        count = len(self.pieces) if first.ndim == 2 else sum(map(len, self.pieces))
        return orthogonalization_cost(count, *first.shape[-2:])

    def orthogonalized(self, method: str, steps: int | None, dtype: torch.dtype | None) -> Sequence[Tensor]:
        """The pieces again, orthogonalised."""
        if len(self.pieces) == 1:
            return [orthogonalize(self.pieces[0], method, steps, dtype=dtype)]
        if self.pieces[0].ndim == 2:
            return orthogonalize(torch.stack(self.pieces), method, steps, dtype=dtype).unbind()
        done = orthogonalize(torch.cat(self.pieces), method, steps, dtype=dtype)
        return done.split([len(piece) for piece in self.pieces])


def orthogonalized_updates(
    updates: Sequence[Tensor],
    views: Sequence[MatrixView],
    *,
    method: str = "auto",
    steps: int | None = None,
    dtype: torch.dtype | None = None,
) -> list[Tensor]:
    """`orthogonalize` of every matrix that an update holds, in the update's shape and type; nothing is written to."""
    stacks = list(_stacks(updates, views))

    def orthogonalized(stack: Stack) -> Sequence[Tensor]:
        return stack.orthogonalized(method, steps, dtype)

    if all(stack.pieces[0].device.type == "cpu" for stack in stacks):
        results = balanced_over_cores(orthogonalized, stacks, [stack.cost for stack in stacks])
    else:
        results = [orthogonalized(stack) for stack in stacks]
    whole: dict[int, Tensor] = {}
    cut: dict[int, list[Tensor]] = {}
    for stack, pieces in zip(stacks, results, strict=True):
        if stack.pieces[0].ndim == 2:
            whole.update(zip(stack.indices, pieces, strict=True))
            continue
        for index, piece in zip(stack.indices, pieces, strict=True):
            cut.setdefault(index, []).append(piece)
    for index, pieces in cut.items():
        together = pieces[0] if len(pieces) == 1 else torch.cat(pieces)
        whole[index] = views[index].assemble(together, updates[index].shape)
    # What is missing has no entries.
    return [whole[index] if index in whole else update.clone() for index, update in enumerate(updates)]


def _stacks(updates: Sequence[Tensor], views: Sequence[MatrixView]) -> Iterator[Stack]:
    """All matrices, those of one shape, type and device together as far as the cache allows."""
    # What is done for every parameter is as little as can be: two hundred small matrices take longer to look at than
    # to orthogonalise.
    kinds: dict[tuple[object, ...], list[int]] = {}
    for index, (update, view) in enumerate(zip(updates, views, strict=True)):
        kinds.setdefault((update.shape, update.dtype, update.device, id(view)), []).append(index)
    alike: dict[tuple[object, ...], Stack] = {}
    for indices in kinds.values():
        first, view = updates[indices[0]], views[indices[0]]
        if first.numel() == 0:
            continue
        pieces = [updates[index] for index in indices]
        if first.ndim != 2 or not view.is_plain:
            pieces = [view.matrices(piece) for piece in pieces]
        key = (pieces[0].shape[-2:], pieces[0].ndim, first.dtype, first.device)
        stack = alike.setdefault(key, Stack([], []))
        stack.indices.extend(indices)
        stack.pieces.extend(pieces)
    for stack in alike.values():
        first = stack.pieces[0]
        room = CHUNK_BYTES if first.device.type == "cpu" else _DEVICE_BYTES
        yield from _packed(stack, max(1, room // (first.shape[-2:].numel() * first.element_size())))


def _packed(stack: Stack, room: int) -> Iterator[Stack]:
    """The stack in parts of about equal size and at most `room` matrices; long pieces are cut."""
    indices, pieces = stack
    if pieces[0].ndim == 2:
        room = _fair_share(len(pieces), room)
        yield from (Stack(indices[i : i + room], pieces[i : i + room]) for i in range(0, len(pieces), room))
        return
    room = _fair_share(sum(map(len, pieces)), room)
    part, filled = Stack([], []), 0
    for index, piece in zip(indices, pieces, strict=True):
        for start in range(0, len(piece), room):
            size = min(room, len(piece) - start)
            if filled + size > room:
                yield part
                part, filled = Stack([], []), 0
            part.indices.append(index)
            part.pieces.append(piece if size == len(piece) else piece[start : start + size])
            filled += size
    yield part


def _fair_share(count: int, room: int) -> int:
    """How many of `count` each of the fewest parts holds that hold at most `room`."""
    return -(-count // -(-count // room))
