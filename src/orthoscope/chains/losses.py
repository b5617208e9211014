"""The loss at the end of a random network: cross-entropy of random labels behind a linear head."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from orthoscope.chains.sources import sources
from orthoscope.chains.weights import Batches

# Heads and labels come from sources of their own: the weights do not depend on the loss.
_HEADS = 1 << 31


def cross_entropy(seeds: Sequence[int], starts: Batches, width: int, classes: int) -> Callable[[Tensor], Tensor]:
    r"""$h \mapsto -\frac1n\sum_i \log\operatorname{softmax}(Ah_i)_{y_i}$ of `(seeds, samples, units)`, one a network.

    $A_{ij} \sim \mathcal N(0, 1/\text{width})$ and labels $y_i$ uniform among the `classes`, each network its own.
    """
    if classes < 2:
        raise ValueError(f"classes is {classes}: cross-entropy needs at least 2")
    samples = starts.shape[-2]
    heads, labels = [], []
    for source in sources(seeds, starts.device, _HEADS):
        own = source.generator
        heads.append(torch.randn(classes, width, generator=own, dtype=torch.float64, device=starts.device))
        labels.append(torch.randint(classes, (samples, 1), generator=own, device=starts.device))
    head, label = torch.stack(heads) / math.sqrt(width), torch.stack(labels)

    def loss(hidden: Tensor) -> Tensor:
        return -(hidden @ head.mT).log_softmax(-1).gather(-1, label).mean((-2, -1))

    return loss
