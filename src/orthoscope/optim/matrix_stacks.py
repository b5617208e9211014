"""Updates of many parameters orthogonalised by few calls: matrices of one shape, in stacks that stay in cache."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from orthoscope.linalg.orthogonalize import orthogonalize
from orthoscope.linalg.parallel import balanced_over_cores
from orthoscope.optim.batching import CHUNK_BYTES
from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.sharding.ownership import orthogonalization_cost

# What an accelerator is given at a time: enough to be busy, little beside the parameters of a model that fills it.
_DEVICE_BYTES = 1 << 26

Piece = tuple[int, Tensor, int]  # of the update with this index, some matrices (count, rows, columns), and how many


def orthogonalized_updates(
    updates: Sequence[Tensor],
    views: Sequence[MatrixView],
    *,
    method: str = "auto",
    steps: int | None = None,
    dtype: torch.dtype | None = None,
) -> list[Tensor]:
    """`orthogonalize` of every matrix that an update holds, in the update's shape and type; nothing is written to."""
    found: list[list[Tensor]] = [[] for _ in updates]
    chunks = list(_chunks(updates, views))

    def orthogonalized(chunk: Sequence[Piece]) -> Tensor:
        stack = chunk[0][1] if len(chunk) == 1 else torch.cat([piece for _, piece, _ in chunk])
        return orthogonalize(stack, method, steps, dtype=dtype)

    if all(update.device.type == "cpu" for update in updates):
        stacks = balanced_over_cores(orthogonalized, chunks, [_cost(chunk) for chunk in chunks])
    else:
        stacks = [orthogonalized(chunk) for chunk in chunks]
    for chunk, stack in zip(chunks, stacks, strict=True):
        for (index, _, _), piece in zip(chunk, stack.split([count for _, _, count in chunk]), strict=True):
            found[index].append(piece)
    return [
        view.assemble(pieces[0] if len(pieces) == 1 else torch.cat(pieces), update.shape) if pieces else update.clone()
        for update, view, pieces in zip(updates, views, found, strict=True)
    ]


def _cost(chunk: Sequence[Piece]) -> int:
    return sum(orthogonalization_cost(*piece.shape) for _, piece, _ in chunk)


def _chunks(updates: Sequence[Tensor], views: Sequence[MatrixView]) -> Iterator[list[Piece]]:
    """All matrices, those of one shape, type and device together as far as the cache allows; in order."""
    alike: dict[tuple[object, ...], list[Piece]] = {}
    for index, (update, view) in enumerate(zip(updates, views, strict=True)):
        if update.numel():
            matrices = view.matrices(update)
            count, rows, columns = matrices.shape
            key = (rows, columns, update.dtype, update.device)
            alike.setdefault(key, []).append((index, matrices, count))
    for pieces in alike.values():
        first = pieces[0][1]
        room_bytes = CHUNK_BYTES if first.device.type == "cpu" else _DEVICE_BYTES
        yield from _packed(pieces, max(1, room_bytes // (first[0].numel() * first.element_size())))


def _packed(pieces: Sequence[Piece], room: int) -> Iterator[list[Piece]]:
    """The pieces in lists of at most `room` matrices; longer ones are cut."""
    chunk: list[Piece] = []
    filled = 0
    for index, matrices, count in pieces:
        for start in range(0, count, room):
            size = min(room, count - start)
            if filled + size > room:
                yield chunk
                chunk, filled = [], 0
            chunk.append((index, matrices if size == count else matrices[start : start + size], size))
            filled += size
    yield chunk
