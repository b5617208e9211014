"""Penalties, manifolds, parametrizations and Muon on one task: a quick run and what it measures."""

import dataclasses
import math

import pytest
import torch

from orthoscope.data import load
from orthoscope.linalg import haar
from orthoscope.models import MLP
from orthoscope.training import minibatches, train
from orthoscope_papers.ju2025.approaches import (
    CHOICE_SEED,
    QUICK,
    cells,
    check,
    compare,
    differences,
    final,
    plot,
    run,
)
from orthoscope_papers.ju2025.arms import ADAM_TRIALS, ARMS, Trial, hidden_layers
from orthoscope_papers.ju2025.measured_training import (
    CHOICE,
    COMPARISON,
    Budget,
    Row,
    held_out,
    shape,
    training,
    update_norms,
)
from papers.figures import drawn

SHORT = Budget(steps=2, evaluations=2, batch=16)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return run(QUICK)


def test_the_quick_run_finds_what_is_claimed(rows: list[Row]) -> None:
    assert all(check(rows).values()), [statement for statement, holds in check(rows).items() if not holds]


def test_nothing_that_is_checked_or_compared_depends_on_time(rows: list[Row]) -> None:
    slower = [row._replace(milliseconds=1e3 * (index % 7), machine="another") for index, row in enumerate(rows)]
    assert check(slower) == check(rows)
    assert compare(slower) == compare(rows)


def test_the_table_has_every_arm_at_its_best_setting_from_every_seed(rows: list[Row]) -> None:
    keys = {(r.network, r.arm, r.stage, r.learning_rate, r.penalty_weight, r.seed, r.step) for r in rows}
    assert len(keys) == len(rows)
    for name in ARMS:
        tried = [r for r in rows if (r.arm, r.stage) == (name, CHOICE)]
        used = [r for r in rows if (r.arm, r.stage) == (name, COMPARISON)]
        assert len(tried) == len(QUICK.networks) * len(QUICK.trials)
        assert len(used) == len(QUICK.networks) * len(QUICK.seeds) * QUICK.evaluations
        assert {r.seed for r in tried} == {CHOICE_SEED}
    assert all(row.milliseconds > 0 and row.machine for row in rows)


def test_every_arm_has_as_many_settings_to_try() -> None:
    assert {len(arm.trials) for arm in ARMS.values()} == {len(ADAM_TRIALS)}


def test_settings_are_chosen_on_digits_that_the_comparison_does_not_see() -> None:
    chosen, judged = held_out(CHOICE)[0], held_out(COMPARISON)[0]
    assert (chosen.shape[0], judged.shape[0]) == (240, 360)
    assert float(torch.cdist(chosen, judged).min()) > 0


def test_cells_joined_are_the_whole_run_but_for_the_time() -> None:
    short = dataclasses.replace(QUICK, arms=("Adam", "SRIP", "Cayley"), depth=2, shallow_depth=1, steps=2, seeds=(0,))
    parts = [row for part in cells(short) for row in run(part)]
    assert [row._replace(milliseconds=0.0) for row in parts] == [row._replace(milliseconds=0.0) for row in run(short)]


@pytest.mark.parametrize("name", ARMS)
def test_all_arms_of_one_start_begin_at_the_same_function(name: str) -> None:
    """A rate of zero leaves the network as it was made: losses agree to rounding."""
    still = training("deep", 3, name, Trial(0.0, 1e-2), COMPARISON, 0, SHORT)[0]
    other = "Adam, Gaussian start" if name == "Adam, Gaussian start" else "Adam"
    assert still.loss == pytest.approx(training("deep", 3, other, Trial(0.0), COMPARISON, 0, SHORT)[0].loss, rel=1e-4)
    assert still.update < 1e-5


def test_rows_hold_the_last_update_and_the_trained_weights() -> None:
    """Weights after one and two steps of SGD, from two trainings of their own."""
    digits = load("digits", "train")
    found = []
    for steps in (1, 2):
        generator = torch.Generator().manual_seed(0)
        model = MLP(
            depth=2, width=64, in_features=64, activation="tanh", init="orthogonal", bias=True, generator=generator
        )
        data = minibatches(digits.inputs[:-240].flatten(1), digits.labels[:-240], 16, torch.Generator().manual_seed(0))
        train(model, data, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), steps=steps)
        found.append(torch.stack([layer.weight.detach().double() for layer in hidden_layers(model)]))
    row = training("shallow", 2, "SGD", Trial(0.1), COMPARISON, 0, SHORT)[-1]
    norms = torch.linalg.matrix_norm(found[1] - found[0], 2)
    assert (row.update_low, row.update_high) == pytest.approx((float(norms.min()), float(norms.max())), rel=1e-4)
    values = torch.linalg.svdvals(found[1])
    assert (row.spectrum_0, row.spectrum_100) == pytest.approx((float(values.min()), float(values.max())), rel=1e-5)
    grams = torch.eye(64) - found[1].mT @ found[1]
    assert row.deviation == pytest.approx(float(torch.linalg.matrix_norm(grams).mean()), rel=1e-5)


def test_shape_and_norms_of_an_orthogonal_matrix_and_of_twice_it() -> None:
    frame = haar(8, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert shape(frame.unsqueeze(0)) == pytest.approx([0, 1, 1, 1, 1, 1], abs=1e-12)
    assert update_norms(torch.stack([frame, 2 * frame])) == pytest.approx([1, 1.5, 2])


def test_a_training_that_diverges_is_infinitely_bad_and_still_has_all_its_rows() -> None:
    rows = training("shallow", 2, "SGD", Trial(1e38), COMPARISON, 0, Budget(6, 3, 16))
    assert [row.step for row in rows] == [2, 4, 6]
    assert rows[-1].loss == math.inf


def test_no_check_survives_weights_that_are_all_alike(rows: list[Row]) -> None:
    alike = [
        row._replace(deviation=1.0, spectrum_0=0.5, spectrum_100=2.0, loss=1.0, update_low=1.0, update_high=1.0)
        for row in rows
    ]
    uneven = [row._replace(update_low=1e-3, update_high=1.0) for row in rows]
    seen = [check(alike), check(uneven)]
    assert all(any(not found[statement] for found in seen) for statement in check(rows))


def test_differences_are_of_the_last_step_seed_by_seed(rows: list[Row]) -> None:
    network = QUICK.networks[0]
    ours, theirs = final(rows, network, "Muon"), final(rows, network, "Adam")
    assert differences(rows, network, "Muon", "Adam") == [a.loss - b.loss for a, b in zip(ours, theirs, strict=True)]
    assert {row.step for row in ours} == {QUICK.steps}


def test_every_statement_of_the_slides_has_a_verdict_with_its_reason(rows: list[Row]) -> None:
    evidence = compare(rows)
    assert evidence
    for entry in evidence:
        assert entry.low <= entry.ours <= entry.high
        assert entry.verdict == "agrees" or entry.why


def test_the_page_has_six_panels_a_network_and_names_every_arm(rows: list[Row]) -> None:
    document = drawn(plot(rows))
    for name in ARMS:
        assert document.count(f">{name}<") >= 4 * len(QUICK.networks)
    assert len(plot(rows)) == 6 * len(QUICK.networks)
