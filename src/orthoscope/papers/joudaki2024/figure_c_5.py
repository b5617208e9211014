"""Joudaki (2024), Figure C.5: accuracy over training on MNIST of deep networks with shaped activations.

What is trained and what is measured: `training_accuracy`.
"""

from dataclasses import dataclass

from orthoscope.papers.joudaki2024 import training_accuracy
from orthoscope.papers.joudaki2024.training_accuracy import Row, cells, check, compare, full, plot, quick, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "RUNNER", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "On MNIST, networks of orthogonal weights, batch norm and activations shaped toward the identity learn at any "
    "depth, almost alike, and the non-linear ones learn more than the identity."
)
KIND = "training"
DATA = ("mnist",)
RUNNER = "joudaki2024/training_accuracy"


@dataclass(frozen=True)
class Config(training_accuracy.Config):
    data: str = "mnist"


QUICK = quick(Config)
FULL = full(Config, "mnist")
