"""Orthogonalization of many updates in few calls: matrices of equal shape are stacked."""

from collections.abc import Sequence

import torch
from torch import Tensor

from orthoscope.linalg import orthogonalize
from orthoscope.optim._batching import equal_shapes, stack_length
from orthoscope.optim.muon.views import MatrixView


def orthogonalized_updates(
    updates: Sequence[Tensor],
    views: Sequence[MatrixView],
    *,
    method: str = "auto",
    steps: int | None = None,
    dtype: torch.dtype | None = None,
) -> list[Tensor]:
    """Apply `linalg.orthogonalize` to every matrix of every update.

    Args:
        updates: Full, plain tensors; they are not modified.
        views: The matrices that each update holds.
        method: As in `linalg.orthogonalize`.
        steps: As in `linalg.orthogonalize`.
        dtype: As in `linalg.orthogonalize`.

    Returns:
        New tensors with the shapes and types of the updates.
    """
    results = list(updates)
    for indices in equal_shapes(updates, views):
        stack = [updates[index] for index in indices]
        done = orthogonalized_stack(stack, views[indices[0]], method=method, steps=steps, dtype=dtype)
        for index, result in zip(indices, done, strict=True):
            results[index] = result
    return results


def orthogonalized_stack(
    updates: Sequence[Tensor], view: MatrixView, *, method: str, steps: int | None, dtype: torch.dtype | None
) -> list[Tensor]:
    """`orthogonalized_updates` for updates of one shape, type, device and view, as one stack of matrices."""
    shape = updates[0].shape
    if shape.numel() == 0:
        return [update.clone() for update in updates]
    own = [view.matrices(update) for update in updates]
    matrices = own[0] if len(own) == 1 else torch.cat(own)
    # One parameter may hold more matrices than a stack, as experts do.
    parts = matrices.split(stack_length(matrices.nbytes // len(matrices), matrices.device.type))
    results = (orthogonalize(part, method, steps, dtype=dtype) for part in parts)
    if len(parts) == 1:
        done = next(results).reshape(matrices.shape)
    else:
        done = torch.empty_like(matrices, memory_format=torch.contiguous_format)
        for place, result in zip(done.split(len(parts[0])), results, strict=True):
            place.copy_(result)
    return [view.assemble(whole, shape) for whole in done.split(len(own[0]))]
