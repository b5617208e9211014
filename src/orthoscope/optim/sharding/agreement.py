"""Whether all ranks are about to exchange the same parameters."""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from hashlib import blake2b

import torch
import torch.distributed as dist
from torch import Tensor

from orthoscope.optim.matrix_views import MatrixView

AGREEMENT_BYTES = 16  # the digest and the number of parameters


def check_agreement(
    updates: Sequence[Tensor], views: Sequence[MatrixView], positions: Sequence[int], group: dist.ProcessGroup
) -> None:
    """Raise on every rank of the group unless all have updates of the same parameters, in one order.

    Compared are shapes, dtypes, views, and positions: where among all parameters, with a gradient or without, an
    update's own stands. Layers of one shape are told apart by nothing else.

    Ranks that disagree would wait for each other until the group's time limit, or mix up their parameters. One
    all_gather of 16 bytes through host memory says so at once. Without gloo in the group (`cpu:gloo,cuda:nccl` has
    it, `nccl` has not) that would hold up the device, and nothing is checked.
    """
    if "cpu:gloo" not in dist.get_backend_config(group):
        return
    content = tuple(
        (position, tuple(update.shape), str(update.dtype), view)
        for position, update, view in zip(positions, updates, views, strict=True)
    )
    mine = torch.tensor([_digest(content), len(updates)], dtype=torch.int64)
    ranks = dist.get_world_size(group)
    everyone = torch.empty(ranks, 2, dtype=torch.int64)
    dist.all_gather_single(everyone.view(-1), mine, group=group)
    if (everyone == mine).all():
        return
    counts = ", ".join(map(str, everyone[:, 1].tolist()))
    raise RuntimeError(
        f"the ranks have gradients for different parameters ({counts} on ranks 0 to {ranks - 1}): give a parameter "
        "that some of them did not use a zero gradient there, or leave it out on all"
    )


@lru_cache(maxsize=64)
def _digest(content: Hashable) -> int:
    # Not hash(): it differs between processes.
    return int.from_bytes(blake2b(repr(content).encode(), digest_size=8).digest(), "little", signed=True)
