"""Short trainings: any network, three learning rates, and the shallow network that says what can be learned."""

from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from orthoscope.papers.calibration.networks import Network, build
from orthoscope.papers.calibration.tasks import Task, samples
from orthoscope.training import minibatches, train

RATES = (1e-4, 1e-3, 1e-2)
STEPS = 150
BATCH = {"mlp": 64, "resnet": 64, "convnet": 32, "transformer": 32}
LOOKED_AT = 256  # samples that data-dependent weights are made for
_SHALLOW = {"mlp": 2, "resnet": 2, "convnet": 2, "transformer": 1}


def made(network: Network, task: Task, seed: int) -> nn.Module:
    """The network as a seed makes it: the same weights at every learning rate."""
    return build(network, samples(task)[0][:LOOKED_AT], torch.Generator().manual_seed(seed))


def losses(make: Callable[[], nn.Module], task: Task, batch: int, steps: int, seed: int) -> tuple[float, ...]:
    """Training loss at the end, for each of RATES, of Adam on the same batches; infinite where it diverged.

    The end is the mean over the last ten steps, of batches that are fresh or one epoch old.
    """
    found = []
    for rate in RATES:
        model = make()
        epoch = minibatches(*samples(task), batch, torch.Generator().manual_seed(seed))
        optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
        found.append(train(model, epoch, optimizer, steps=steps).final())
    return tuple(found)


@cache
def reference_loss(kind: str, width: int, task: Task, steps: int) -> float:
    """What a shallow network of the same kind and width learns in as many steps, at its best rate.

    Two hidden layers of ReLU with He's weights (a Transformer: one pre-norm block with Xavier's): nothing to go wrong.
    """
    deep = kind == "transformer"
    network = Network(
        kind,  # type: ignore[arg-type]
        _SHALLOW[kind],
        width,
        norm="pre" if deep else "none",
        init="xavier" if deep else "he",
    )
    return min(losses(lambda: made(network, task, 0), task, BATCH[kind], steps, 0))
