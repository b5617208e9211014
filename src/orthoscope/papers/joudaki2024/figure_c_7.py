"""Joudaki (2024), Figure C.7: accuracy over training on CIFAR-100 of deep networks with shaped activations.

What is trained and what is measured: `training_accuracy`. CIFAR-100 is not
to be had by package name: CIFAR-10 stands in for it, with other seeds than in Figure C.8.
"""

from dataclasses import dataclass

from orthoscope.papers.joudaki2024.training_accuracy import Row, Setting, cells, check, compare, plot, run

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "On CIFAR-100 (here: CIFAR-10), networks of orthogonal weights, batch norm and activations shaped toward the "
    "identity learn at any depth, almost alike, and the non-linear ones learn more than the identity."
)
KIND = "training"


@dataclass(frozen=True)
class Config(Setting):
    data: str = "cifar10"
    seeds: tuple[int, ...] = (2, 3)


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
FULL = Config(depths=(100, 500, 1000), images=50000, tested=10000, learning_rate=0.001, steps=50000, seeds=(0,))
