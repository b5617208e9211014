r"""Li & Papyan (2023), Figures 1-3, 10-12, 24-26 and 38-40: residual alignment of fully connected networks (type 1).

RA1 as paths of one input on their principal axes, RA2 as pairs of blocks and their singular vectors, RA3 and RA4 as
singular values over depth; before and after training, with and without skips, all four as scores with intervals. The
paper trains ResNet34 (16 blocks), and its appendix prints neither width, epochs nor learning rate: those of FULL are
ours. Here 8 blocks of width 64 see 1000 images for a hundred epochs, with a weight decay that forgets the start.
"""

from dataclasses import dataclass

from orthoscope.papers.evidence import Evidence
from orthoscope.papers.li2023 import alignment_evidence, trained_networks
from orthoscope.papers.li2023.alignment_figure import alignment_figure
from orthoscope.papers.li2023.trained_networks import Row, Setting, cells

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "Training a fully connected residual network aligns its blocks: representations move along a line, though in steps "
    "less even than before, blocks share their leading singular vectors, and Jacobians have no more directions than "
    "there are classes. 1/σ₁ "
    "grows with depth on MNIST, with the exponent of the paper, less on Fashion-MNIST, and not on CIFAR-10. Without "
    "skips there is no line, nothing is shared and σ₁ grows, but the rank is low all the same."
)
KIND = "training"
DATA = ("mnist", "fashion-mnist", "cifar10")


@dataclass(frozen=True)
class Config(Setting):
    kind: int = 1
    blocks: tuple[int, ...] = (8,)
    width: int = 64
    learning_rate: float = 0.15
    weight_decay: float = 5e-3
    steps: int = 1000


QUICK = Config(
    data=("digits",),
    pools=(1,),
    blocks=(5,),
    width=48,
    images=500,
    steps=400,
    learning_rate=0.3,
    samples=8,
    seeds=(0, 1, 2),
    pictured=0,
)
FULL = Config(blocks=(16,), width=512, images=50_000, steps=150_000, batch=128, learning_rate=0.1, weight_decay=5e-4)


def run(config: Config) -> list[Row]:
    """Every dataset, with and without skips, from every seed."""
    return trained_networks.run(config)


def check(rows: list[Row]) -> dict[str, bool]:
    """The four statements, and what skips have to do with them."""
    return alignment_evidence.check_all(rows)


def compare(rows: list[Row]) -> list[Evidence]:
    """All scores; the paper shows pictures."""
    return alignment_evidence.compare_all(rows)


def plot(rows: list[Row]) -> str:
    """Paths, singular vectors, singular values and scores."""
    return alignment_figure(rows)
