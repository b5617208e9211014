"""Joudaki (2024), Figure C.5: accuracy over training on MNIST of deep networks with shaped activations.

What is trained and what is measured: `training_accuracy`.
"""

from dataclasses import dataclass

from orthoscope.papers.joudaki2024.training_accuracy import Row, Setting, cells, check, compare, plot, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "On MNIST, networks of orthogonal weights, batch norm and activations shaped toward the identity learn at any "
    "depth, almost alike, and the non-linear ones learn more than the identity."
)
KIND = "training"


@dataclass(frozen=True)
class Config(Setting):
    data: str = "mnist"


QUICK = Config(
    data="digits",
    depths=(5, 20),
    width=48,
    batch=50,
    images=1000,
    tested=300,
    learning_rate=0.1,
    steps=160,
    seeds=(0,),
)
FULL = Config(depths=(100, 500, 1000), images=60000, tested=10000, learning_rate=0.001, steps=60000, seeds=(0,))
