"""The two tasks that networks are trained on, as tensors ready to be cut into batches."""

from functools import cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from orthoscope.data import load

Task = Literal["digits", "fashion-mnist"]
TASKS: tuple[Task, ...] = ("digits", "fashion-mnist")
CLASSES = 10
SAMPLES = 5000  # of Fashion-MNIST; the digits are fewer
_HALVED = 28  # pixels along a side from which on maps are halved


@cache
def samples(task: Task) -> tuple[Tensor, Tensor]:
    """Images with mean 0 and variance 1 over all pixels, as users normalise them, and labels.

    Clothes are averaged over squares of 2x2 pixels: what matters here is the depth of a network, not of a picture.
    """
    data = load(task, "train")
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:SAMPLES]
    images = data.inputs[order]
    if images.shape[-1] >= _HALVED:
        images = avg_pool2d(images, 2)
    return (images - images.mean()) / images.std(), data.labels[order]
