"""Figures 6.4, 6.6 and C.3 to C.8: deep networks that are trained; statements fail on rows without their effect."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from orthoscope_papers.experiments import Experiment, load
from orthoscope_papers.joudaki2024 import shaped_network, trained_orthogonality, training_accuracy
from papers.figures import drawn

ACCURACIES = ["figure_6_4", "figure_c_5", "figure_c_6", "figure_c_7", "figure_c_8"]
DIFFERENT = ["figure_6_4", "figure_6_6", "figure_c_3", "figure_c_4"]


def loaded(name: str) -> Experiment:
    return load(f"joudaki2024/{name}")


def name_of(value: object) -> str | None:
    return value.__name__ if callable(value) and hasattr(value, "__name__") else None


@cache
def quick(name: str) -> list[Any]:
    """Rows of the quick setting, run once."""
    return loaded(name).run(loaded(name).settings["quick"])


def failed(checks: dict[str, bool]) -> set[str]:
    return {statement for statement, holds in checks.items() if not holds}


def chance(row: Any) -> Any:
    """Nothing is learned."""
    return row._replace(train_accuracy=0.1)


def shallow_only(row: Any) -> Any:
    """The deep networks do not learn."""
    return chance(row) if row.depth > 5 else row


def alike(row: Any) -> Any:
    """All activations learn the same."""
    return row._replace(train_accuracy=0.9)


def at_random(row: Any) -> Any:
    """Movement and gradients without a preference."""
    return row._replace(gap=row.moved, symmetric=0.5)


def hardly_moved(row: Any) -> Any:
    return row._replace(moved=1e-12)


def small_in_the_middle(row: Any) -> Any:
    return row._replace(log_gradient=row.log_gradient - 5 * (row.layer < 0.9 * row.depth))


def far(row: Any) -> Any:
    """Weights leave the orthogonal group."""
    return row._replace(gap=0.1)


def untouched(row: Any) -> Any:
    return row._replace(gap=0.0, moved=0.0)


def exploding(row: Any) -> Any:
    return row._replace(log_gradient=row.log_gradient + 0.5 * (row.depth - row.layer))


def vanished(row: Any) -> Any:
    return row._replace(log_gradient=-20.0)


REMOVED: list[tuple[str, Callable[[Any], Any], tuple[int, ...]]] = [
    ("figure_6_4", chance, (0, 1, 2)),
    ("figure_6_4", shallow_only, (0, 1, 2)),
    ("figure_6_4", alike, (2,)),
    ("figure_6_6", at_random, (1, 2, 3)),
    ("figure_6_6", hardly_moved, (0, 1)),
    ("figure_6_6", small_in_the_middle, (4,)),
    ("figure_c_3", far, (1, 2)),
    ("figure_c_3", at_random, (2,)),
    ("figure_c_3", untouched, (0, 1, 2)),
    ("figure_c_4", exploding, (0,)),
    ("figure_c_4", vanished, (1,)),
    ("figure_c_4", untouched, (2,)),
]


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_quick_run_shows_the_claim_and_can_be_drawn(name: str) -> None:
    experiment, rows = loaded(name), quick(name)
    assert not failed(experiment.check(rows))
    assert {found.verdict for found in experiment.compare(rows)} == {"agrees"}
    drawn(experiment.plot(rows))


@pytest.mark.parametrize(("name", "removed", "statements"), REMOVED, ids=name_of)
def test_statements_fail_without_their_effect_and_only_those(
    name: str, removed: Callable[[Any], Any], statements: tuple[int, ...]
) -> None:
    checks = loaded(name).check([removed(row) for row in quick(name)])
    assert failed(checks) == {list(checks)[index] for index in statements}


def test_the_figures_of_accuracy_differ_in_images_alone() -> None:
    """One body, so that what is tested of one holds for all: their quick runs are the same run."""
    found = [loaded(name) for name in ACCURACIES]
    for one in found:
        assert all(getattr(one, verb) is getattr(training_accuracy, verb) for verb in ("check", "compare", "plot"))
        assert one.settings["quick"] == training_accuracy.QUICK
    images = ["cifar10", "mnist", "fashion-mnist", "cifar10", "cifar10"]
    assert [one.settings["default"] for one in found] == [training_accuracy.Config(data=data) for data in images]
    images[3] = "cifar100"
    assert [one.settings["full"].data for one in found] == images
    assert len({getattr(training_accuracy, name).claim for name in ACCURACIES}) == len(ACCURACIES)


def test_accuracy_that_non_linearity_does_not_raise_is_said_to_differ() -> None:
    found = training_accuracy.compare([alike(row) for row in quick("figure_6_4")])
    assert [row.verdict for row in found if row.quantity.startswith("train")] == ["differs", "differs"]
    assert all(row.why for row in found)


def test_accuracy_is_the_share_of_hits_over_batches_of_their_own() -> None:
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert training_accuracy.accuracy(nn.Identity(), images, torch.tensor([0, 1, 0]), 2) == pytest.approx(2 / 3)


def test_a_layer_of_a_shaped_network_is_the_activation_of_its_gain_times_normalized_products() -> None:
    generator = torch.Generator().manual_seed(0)
    network = shaped_network.shaped_network(
        9, 3, width=6, depth=4, activation="sin", exponent=-0.4, generator=generator
    )
    inputs = torch.randn(12, 9, generator=generator)
    hidden, (weight, *_) = network[:1](inputs), shaped_network.hidden_weights(network)
    product = hidden @ weight.T
    deviation, mean = torch.std_mean(product, 0, correction=0)
    assert torch.allclose(network[:2](inputs), torch.sin(2**-0.4 * (product - mean) / deviation), atol=1e-3)
    assert [tuple(each.shape) for each in shaped_network.hidden_weights(network)] == [(6, 6)] * 3


def test_tangent_gradients_have_no_symmetric_share_and_normal_ones_no_other() -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.linalg.qr(torch.randn(6, 6, generator=generator))[0]
    square = torch.randn(6, 6, generator=generator)
    shares = [
        trained_orthogonality._numbers(weight, weight, (square + sign * square.T) @ weight)[3] for sign in (-1, 1)
    ]
    assert shares == pytest.approx([0, 1], abs=1e-6)


def test_a_small_random_movement_leaves_a_gap_equal_to_what_it_moved() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.linalg.qr(torch.randn(64, 64, generator=generator, dtype=torch.float64))[0]
    moved = start + 1e-3 * torch.randn(64, 64, generator=generator, dtype=torch.float64)
    gap, distance, *_ = trained_orthogonality._numbers(moved, start, start)
    assert gap == pytest.approx(distance, rel=0.1)
    assert math.isclose(distance, 64e-6, rel_tol=0.1)
