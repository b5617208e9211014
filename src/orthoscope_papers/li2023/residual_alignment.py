r"""Li & Papyan (2023): residual alignment of fully connected, convolutional and down-sampling networks.

RA1 as paths of one input on their principal axes, RA2 as pairs of blocks and their singular vectors, RA3 and RA4 as
singular values over depth; before and after training, with and without skips, all four as scores with intervals. The
paper trains ResNet34 on whole images, and its appendix prints neither width, epochs nor learning rate: those of the
full settings are ours.

`fully_connected` (type 1, Figures 1-3, 10-12, 24-26 and 38-40): 8 blocks of width 64 see 1000 images for a hundred
epochs, with a weight decay that forgets the start.
`convolutional` (type 2, Figures 4-6, 14-16, 28-30 and 42-44): one width and resolution, 5 blocks of 16 channels, 300
images of 4 x 4 pixels.
`down_sampling` (type 3, Figures 7-9, 19-21 and 33-35): two stages of 3 blocks, of 16 and 32 channels, the same images.
The first block of the second stage has a projection for a skip and no square Jacobian: blocks are compared within
stages.
"""

from dataclasses import replace
from typing import Any

from orthoscope_papers.experiments import Figure
from orthoscope_papers.li2023.alignment_checks import check_aligned, check_beginnings, compare
from orthoscope_papers.li2023.alignment_figure import plot
from orthoscope_papers.li2023.trained_networks import Config, Row, cells, run

__all__ = ["Config", "Row", "cells", "compare", "convolutional", "down_sampling", "fully_connected", "plot", "run"]

KIND = "training"
DATA = ("mnist", "fashion-mnist", "cifar10")

CONNECTED = Config(kind=1, blocks=(8,), width=64, learning_rate=0.15, weight_decay=5e-3, steps=1000)
CONVOLUTIONAL = Config(kind=2, blocks=(5,), width=16, pools=(7, 7, 8), images=300, batch=50, samples=4, steps=600)
DOWN_SAMPLING = replace(CONVOLUTIONAL, kind=3, blocks=(3, 3))
# What the quick settings have in common, and the full ones.
EMBEDDED: dict[str, Any] = {"data": ("digits",), "seeds": (0, 1, 2), "pictured": 0}
PRINTED: dict[str, Any] = {"images": 50_000, "steps": 150_000, "batch": 128, "learning_rate": 0.1, "weight_decay": 5e-4}

fully_connected = Figure(
    claim="Training a fully connected residual network aligns its blocks: representations move along a line, though in "
    "steps less even than before, blocks share their leading singular vectors, and Jacobians have no more "
    "directions than there are classes. 1/σ₁ grows with depth on MNIST, with the exponent of the paper, less on "
    "Fashion-MNIST, and not on CIFAR-10. Without skips there is no line, nothing is shared and σ₁ grows, but the "
    "rank is low all the same.",
    default=CONNECTED,
    quick=replace(CONNECTED, pools=(1,), blocks=(5,), width=48, images=500, steps=400, learning_rate=0.3, **EMBEDDED),
    full=replace(CONNECTED, blocks=(16,), width=512, **PRINTED),
    check=check_aligned,
)
convolutional = Figure(
    claim="Training a small convolutional residual network begins to align it: the path of an input straightens, "
    "singular vectors of blocks move toward each other, and the rank of Jacobians falls. Without skips only the "
    "rank does. At this size and length of training that is all: the paper shows shared singular vectors and σ₁ "
    "falling with depth; here vectors are hardly shared, ranks exceed the number of classes and σ₁ does not fall "
    "as 1/depth.",
    default=CONVOLUTIONAL,
    quick=replace(CONVOLUTIONAL, pools=(2,), blocks=(4,), images=200, steps=100, samples=2, **EMBEDDED),
    full=replace(CONVOLUTIONAL, blocks=(16,), width=64, pools=(1, 1, 1), **PRINTED),
    check=check_beginnings,
)
down_sampling = Figure(
    claim="Training a small residual network that down-samples begins to align it: the path of an input straightens, "
    "singular vectors of blocks move toward each other, and the rank of Jacobians falls. Without skips only the "
    "rank does. At this size and length of training that is all: the paper shows shared singular vectors and σ₁ "
    "falling with depth; here vectors are hardly shared, ranks exceed the number of classes and σ₁ does not fall "
    "as 1/depth.",
    default=DOWN_SAMPLING,
    quick=replace(DOWN_SAMPLING, pools=(2,), width=8, steps=120, samples=2, **EMBEDDED),
    full=replace(DOWN_SAMPLING, blocks=(3, 4, 6, 3), width=64, pools=(1, 1, 1), **PRINTED),
    check=check_beginnings,
)
