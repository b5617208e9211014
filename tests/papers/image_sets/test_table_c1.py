"""Joudaki (thesis), Table C.1, on the real data: rank and mean cosine of raw images.

A batch of images is of full rank; that it is not in the table is float32's doing, which the same batches in
float64 show.
"""

import os
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from orthoscope.data import Dataset
from orthoscope.metrics import mean_overlap, numerical_rank
from orthoscope_papers.image_sets import get, load

pytestmark = pytest.mark.slow

NUM_BATCHES = 20


class Row(NamedTuple):
    """The printed ranks at 256 and 512 samples, and the mean cosine found at 512."""

    ranks: dict[int, float]
    cosine: float


TABLE = {
    "mnist": Row({256: 250.48, 512: 318.04}, 0.402),
    "fashion-mnist": Row({256: 238.19, 512: 275.37}, 0.594),
    "cifar10": Row({256: 221.06, 512: 203.70}, 0.814),
}


@pytest.fixture(autouse=True, scope="module")
def share_the_cores_with_other_workers():
    """Two workers that each start a thread a core spend most of their time waiting: 75 s instead of 20."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(1, before // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))))
    yield
    torch.set_num_threads(before)


@cache
def real(name: str) -> Dataset:
    get(name)  # a machine that cannot fetch it fails here, with the sentence a user would see
    return load(name)


def batches(name: str, samples: int, count: int = NUM_BATCHES) -> Iterator[Tensor]:
    """Random batches of raw pixels, one at a time: a stack of them in float64 would take 250 MB."""
    generator = torch.Generator().manual_seed(samples)
    for _ in range(count):
        yield real(name).batch(samples, generator)[0].flatten(start_dim=1)


@pytest.mark.parametrize("samples", [256, 512])
@pytest.mark.parametrize("name", TABLE)
def test_the_float32_rank_of_raw_images_is_the_printed_one(name, samples):
    ranks = torch.stack([numerical_rank(batch) for batch in batches(name, samples)]).double()
    assert ranks.mean().item() == pytest.approx(TABLE[name].ranks[samples], rel=0.01)
    assert (ranks.std() / NUM_BATCHES**0.5).item() < 2, "the error bar must be smaller than 1 % of the rank"


@pytest.mark.parametrize("name", TABLE)
def test_the_same_images_are_of_full_rank_in_float64(name):
    assert [numerical_rank(batch.double()) for batch in batches(name, 512, count=3)] == [512] * 3


@pytest.mark.parametrize("name", TABLE)
def test_raw_images_point_in_similar_directions(name):
    overlaps = torch.stack([mean_overlap(batch) for batch in batches(name, 512)])
    assert overlaps.mean().item() == pytest.approx(TABLE[name].cosine, abs=0.01)


def test_the_first_labels_of_cifar10_are_in_their_known_order():
    assert real("cifar10").labels[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]


@pytest.mark.parametrize("name", TABLE)
def test_every_class_has_its_share_of_the_training_set(name):
    counts = real(name).labels.bincount()
    assert len(counts) == real(name).num_classes == 10
    # MNIST's classes are of unequal size (5421 to 6742); the others are equal.
    assert counts.min() / counts.max() > (0.8 if name == "mnist" else 0.999)
