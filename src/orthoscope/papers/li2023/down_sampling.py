r"""Li & Papyan (2023), Figures 7-9, 19-21 and 33-35: residual alignment of networks that down-sample (type 3).

As `fully_connected`, for networks of stages. The paper trains ResNet34 on whole images (what its appendix does not
print, FULL chooses); here two stages of 3 blocks, of 16 and 32 channels, see 300 images of 4 x 4 pixels. The first
block of the second stage has a projection for a skip and no square Jacobian: blocks are compared within stages.
"""

from dataclasses import dataclass

from orthoscope.papers.evidence import Evidence
from orthoscope.papers.li2023 import alignment_evidence, trained_networks
from orthoscope.papers.li2023.alignment_figure import alignment_figure
from orthoscope.papers.li2023.trained_networks import Row, Setting, cells

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "Training a small residual network that down-samples begins to align it: the path of an input straightens, "
    "singular vectors of blocks move toward each other, and the rank of Jacobians falls. Without skips only the rank "
    "does. At this size and length of training that is all: the paper shows shared singular vectors and σ₁ falling "
    "with depth; here vectors are hardly shared, ranks exceed the number of classes and σ₁ does not fall as 1/depth."
)
KIND = "training"
DATA = ("mnist", "fashion-mnist", "cifar10")


@dataclass(frozen=True)
class Config(Setting):
    kind: int = 3
    blocks: tuple[int, ...] = (3, 3)
    width: int = 16
    pools: tuple[int, ...] = (7, 7, 8)
    images: int = 300
    batch: int = 50
    samples: int = 4
    steps: int = 600


QUICK = Config(
    data=("digits",),
    pools=(2,),
    width=8,
    images=300,
    steps=120,
    samples=2,
    seeds=(0, 1, 2),
    pictured=0,
)
FULL = Config(
    blocks=(3, 4, 6, 3),
    width=64,
    pools=(1, 1, 1),
    images=50_000,
    steps=150_000,
    batch=128,
    learning_rate=0.1,
    weight_decay=5e-4,
)


def run(config: Config) -> list[Row]:
    """Every dataset, with and without skips, from every seed."""
    return trained_networks.run(config)


def check(rows: list[Row]) -> dict[str, bool]:
    """What a short training shows of the four statements."""
    return alignment_evidence.check_beginnings(rows)


def compare(rows: list[Row]) -> list[Evidence]:
    """All scores; the paper shows pictures."""
    return alignment_evidence.compare_all(rows)


def plot(rows: list[Row]) -> str:
    """Paths, singular vectors, singular values and scores."""
    return alignment_figure(rows)
