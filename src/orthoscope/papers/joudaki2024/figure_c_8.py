"""Joudaki (2024), Figure C.8: training and test accuracy on CIFAR-10 of deep networks with shaped activations.

What is trained and what is measured: `training_accuracy`. The training
accuracy is that of Figure 6.4.
"""

from dataclasses import dataclass

from orthoscope.papers.joudaki2024 import training_accuracy
from orthoscope.papers.joudaki2024.training_accuracy import Row, cells, check, compare, full, plot, quick, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "RUNNER", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "On CIFAR-10, networks of orthogonal weights, batch norm and activations shaped toward the identity learn at any "
    "depth, almost alike; the non-linear ones fit the training images better than the identity, and whether they are "
    "better on other images is not decided by so short a training."
)
KIND = "training"
DATA = ("cifar10",)
RUNNER = "joudaki2024/training_accuracy"


@dataclass(frozen=True)
class Config(training_accuracy.Config):
    data: str = "cifar10"


QUICK = quick(Config)
FULL = full(Config, "cifar10")
