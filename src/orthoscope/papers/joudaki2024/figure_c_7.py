"""Joudaki (2024), Figure C.7: accuracy over training on CIFAR-100 of deep networks with shaped activations.

What is trained and what is measured: `training_accuracy`. CIFAR-100 is not to be had by package name: by default the
trainings of Figure C.8 on CIFAR-10 stand in, and the full setting reads CIFAR-100 from disk (`papers.cifar100`).
"""

from dataclasses import dataclass

from orthoscope.papers.joudaki2024 import training_accuracy
from orthoscope.papers.joudaki2024.training_accuracy import Row, cells, check, compare, full, plot, quick, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "RUNNER", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "On CIFAR-100 (by default the trainings on CIFAR-10 stand in), networks of orthogonal weights, batch norm and "
    "activations shaped toward the identity learn at any depth, almost alike, and the non-linear ones fit the training "
    "images better than the identity."
)
KIND = "training"
DATA = ("cifar10",)
FULL_DATA = ("cifar100",)
RUNNER = "joudaki2024/training_accuracy"


@dataclass(frozen=True)
class Config(training_accuracy.Config):
    data: str = "cifar10"


QUICK = quick(Config)
FULL = full(Config, "cifar100")
