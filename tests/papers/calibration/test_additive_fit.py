"""The fit of the additive probability: it finds limits that were planted, and nothing else."""

import math
import random

import pytest

from orthoscope_papers.calibration.additive_fit import Sample, best_rounds, cross_validated, fitted, log_loss
from orthoscope_papers.calibration.after_steps import rates

SIZE = 600


def drawn(seed: int) -> list[Sample]:
    """Networks that fail at a rate of 9 in 10 if `bad` is above 0.7, for sgd also if `steep` is; `noise` is none."""
    dice = random.Random(seed)
    samples = []
    for number in range(SIZE):
        numbers = {name: dice.random() for name in ("bad", "steep", "noise")}
        optimizer = dice.choice(["adamw", "sgd"])
        fails = numbers["bad"] > 0.7 or (optimizer == "sgd" and numbers["steep"] > 0.7)
        if number % 7 == 0:
            del numbers["noise"]
        samples.append(Sample(numbers, optimizer, fails != (dice.random() < 0.1), f"family {number % 20}"))
    return samples


def test_planted_limits_are_found_and_noise_is_not() -> None:
    model = fitted(drawn(0), rounds=100)
    of = {name: sum(term.adds for term in model.terms if term.number == name) for name in ("bad", "steep", "noise")}
    assert of["bad"] > 2 > 5 * of["noise"]
    near = sum(term.adds for term in model.terms if term.number == "bad" and 0.6 < term.above < 0.8)
    assert near > 0.7 * of["bad"]
    of_sgd = sum(term.adds for term in model.terms if term.number == "steep" and term.optimizer == "sgd")
    assert of_sgd > 0.9 * of["steep"] > 2


def test_risks_of_strangers_are_near_their_rates() -> None:
    samples = drawn(1)
    model = fitted(drawn(0), best_rounds(drawn(0)))
    for optimizer, bad, steep in (("adamw", 0.9, 0.9), ("sgd", 0.2, 0.9), ("adamw", 0.2, 0.2)):
        share = [s.fails for s in samples if s.optimizer == optimizer]
        assert len(share) > 200
        risk = model.probability({"bad": bad, "steep": steep, "noise": 0.5}, optimizer)
        expected = 0.9 if bad > 0.7 or (optimizer == "sgd" and steep > 0.7) else 0.1
        assert risk == pytest.approx(expected, abs=0.1)


def test_a_cross_validated_risk_is_worse_than_that_of_the_fit_and_better_than_none() -> None:
    samples = drawn(2)
    own = [fitted(samples, 100).probability(s.numbers, s.optimizer) for s in samples]
    share = sum(s.fails for s in samples) / SIZE
    guess = [share] * SIZE
    assert log_loss(samples, own) < log_loss(samples, cross_validated(samples, 100)) < log_loss(samples, guess)


def test_left_out_numbers_are_not_used_and_infinite_ones_are_beyond_every_limit() -> None:
    samples = drawn(3)
    assert all(term.number != "bad" for term in fitted(samples, 50, frozenset({"bad"})).terms)
    model = fitted(samples, 50)
    assert model.probability({"bad": math.inf}, "adamw") == model.probability({"bad": 1.0}, "adamw")


def test_rates_count_networks() -> None:
    found = rates([(True, True), (True, False), (False, False), (False, True), (False, False)])
    assert (found.accuracy, found.false_alarms, found.caught) == (0.6, pytest.approx(1 / 3), 0.5)
    assert (found.networks, found.failures) == (5, 2)
