"""Short trainings of any network at three learning rates, their two tasks, and the shallow reference of each."""

from collections.abc import Callable
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d

from orthoscope.training import minibatches, train
from orthoscope_papers.calibration.networks import Network, build
from orthoscope_papers.image_sets import load

Task = Literal["digits", "fashion-mnist"]
TASKS: tuple[Task, ...] = ("digits", "fashion-mnist")
CLASSES = 10
SAMPLES = 5000  # of Fashion-MNIST; the digits are fewer
RATES = (1e-4, 1e-3, 1e-2)
STEPS = 150
BATCH = {"mlp": 64, "resnet": 64, "convnet": 32, "transformer": 32}
INIT_SAMPLES = 256  # samples that data-dependent weights are made for
_SHALLOW = {"mlp": 2, "resnet": 2, "convnet": 2, "transformer": 1}
_HALVED = 28  # pixels along a side from which on maps are halved


@cache
def samples(task: Task) -> tuple[Tensor, Tensor]:
    """Return images with mean 0 and variance 1 over all pixels, and labels.

    Fashion-MNIST is averaged over squares of 2x2 pixels, for speed.
    """
    data = load(task, "train")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:SAMPLES]
    images = data.inputs[order]
    if images.shape[-1] >= _HALVED:
        images = avg_pool2d(images, 2)
    return (images - images.mean()) / images.std(), data.labels[order]


def made(network: Network, task: Task, seed: int) -> nn.Module:
    """Build the network of a seed: the same weights at every learning rate."""
    return build(network, samples(task)[0][:INIT_SAMPLES], torch.Generator().manual_seed(seed))


def losses(make: Callable[[], nn.Module], task: Task, batch: int, steps: int, seed: int) -> tuple[float, ...]:
    """Train by Adam at each of RATES, on the same batches.

    Returns:
        The mean training loss over the last ten steps for each rate; infinite where it diverged.
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
    """Return the final loss of a shallow network of the same kind and width in as many steps, at its best rate.

    Two hidden ReLU layers with He's weights, or one pre-norm Transformer block with Xavier's.
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
