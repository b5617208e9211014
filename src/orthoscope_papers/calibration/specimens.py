"""Members of the benchmark as a diagnosis takes them: the network of a seed, and a batch with its loss."""

from collections.abc import Callable
from itertools import islice

import torch
from torch import Tensor, nn

from orthoscope.probe.samples import Call
from orthoscope_papers.calibration.interventions import Member
from orthoscope_papers.calibration.tasks import SIZE

DIAGNOSED = 64  # samples
_SEED = 1000  # of the batch: no training begins with it


def built(member: Member, seed: int) -> nn.Module:
    """Build a member as it is trained from that seed."""
    return member.built(seed)


def diagnosed_batch(member: Member) -> tuple[Call, Callable[[Tensor, Tensor], Tensor]]:
    """Return samples of the member's task with their targets, and its loss: `diagnose(network, batch, loss)`."""
    parts = list(islice(member.batches(_SEED), DIAGNOSED // SIZE))
    args = tuple(torch.cat(tensors) for tensors in zip(*(part.args for part in parts), strict=True))
    return Call(args=args, target=torch.cat([part.target for part in parts])), member.task.loss
