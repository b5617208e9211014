"""The probability after first steps, by optimizer: what it is fitted to, and how often it is right on other families.

Trainings are those of `calibration/trainability` and of the grid, numbers those of `calibration/diagnoses`. Families
that are held out are used for nothing but the error rates.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy

from orthoscope.diagnosis.rules import AT_RISK
from orthoscope_papers.calibration.additive_fit import Sample, best_rounds, fitted
from orthoscope_papers.calibration.diagnoses import GRID, Row, is_near
from orthoscope_papers.calibration.families import FAMILIES, held_out
from orthoscope_papers.calibration.grid import grid
from orthoscope_papers.calibration.interventions import Member
from orthoscope_papers.calibration.records import outcomes
from orthoscope_papers.calibration.trainability import Row as Training
from orthoscope_papers.calibration.trainability import firsts
from orthoscope_papers.results import read_table

OF_STEPS = frozenset({"first steps", "first step", "loss after first steps"})
SICK_ABOVE = 0.6  # the risk: in cross-validation, at most 3 in 100 networks that train are beyond it
_DRAWS = 1000  # of families, for intervals
_BINS = ((0.0, 0.05), (0.05, AT_RISK), (AT_RISK, SICK_ABOVE), (SICK_ABOVE, 0.8), (0.8, 1.01))


@dataclass(frozen=True, eq=False)
class Case:
    """A trained network with its diagnosis."""

    row: Row
    kind: str
    held_out: bool
    sample: Sample


def cases(results: Path) -> list[Case]:
    """Every network that was both trained and diagnosed."""
    folder = results / "calibration"
    rows = firsts(read_table(folder / "trainability", Training))
    trained = {(row.family, row.intervention, row.optimizer): row.trains for row in rows}
    found = []
    for row in read_table(folder / "diagnoses", Row):
        if row.family == GRID:
            number = int(row.intervention)
            network = grid()[number].network
            fails, held = not outcomes()[number].trains, grid()[number].held_out
            sample = Sample(row.numbers, row.optimizer, fails, network.family)
            found.append(Case(row, f"grid: {network.kind}", held, sample))
        elif (key := (row.family, row.intervention, row.optimizer)) in trained:
            sample = Sample(row.numbers, row.optimizer, not trained[key], row.family)
            found.append(Case(row, FAMILIES[row.family].kind, row.family in held_out(), sample))
    return found


@dataclass(frozen=True)
class Rates:
    """How often a rule is right, and how many networks that was counted on."""

    accuracy: float
    false_alarms: float | None  # of those that train, the share called sick; None if there are none
    caught: float | None  # of those that do not train
    networks: int
    failures: int


def rates(pairs: Sequence[tuple[bool, bool]]) -> Rates:
    """Of pairs (called sick, fails)."""
    called = numpy.array([pair[0] for pair in pairs], dtype=bool)
    fails = numpy.array([pair[1] for pair in pairs], dtype=bool)
    return Rates(
        float((called == fails).mean()),
        float(called[~fails].mean()) if (~fails).any() else None,
        float(called[fails].mean()) if fails.any() else None,
        len(pairs),
        int(fails.sum()),
    )


def interval(chosen: Sequence[Case], sick: Callable[[Case], bool]) -> tuple[float, float]:
    """95 % interval of the accuracy, families drawn with replacement."""
    families: dict[str, list[bool]] = {}
    for case in chosen:
        families.setdefault(case.sample.group, []).append(sick(case) == case.sample.fails)
    dice, names = random.Random(0), sorted(families)
    drawn = []
    for _ in range(_DRAWS):
        right = [one for name in dice.choices(names, k=len(names)) for one in families[name]]
        drawn.append(sum(right) / len(right))
    drawn.sort()
    return drawn[int(0.025 * _DRAWS)], drawn[int(0.975 * _DRAWS)]


def document(found: Sequence[Case]) -> dict[str, Any]:
    """The entry `after_steps` of calibration.json: the model, and its error rates on families held out."""
    open_ = [case.sample for case in found if not case.held_out]
    rounds = best_rounds(open_)
    model = fitted(open_, rounds)
    one_pass = fitted(open_, best_rounds(open_, OF_STEPS), OF_STEPS)
    alone = _threshold(open_, "first steps")
    held = [case for case in found if case.held_out and case.row.family != GRID]
    risks = {id(case): model.probability(case.sample.numbers, case.sample.optimizer) for case in found}
    by_rule: Mapping[str, Callable[[Case], bool]] = {
        "orthoscope, after first steps": lambda case: risks[id(case)] > SICK_ABOVE,
        "the same numbers without the first steps": lambda case: (
            one_pass.probability(case.sample.numbers, case.sample.optimizer) > SICK_ABOVE
        ),
        "fall of the loss in the first steps alone": lambda case: case.sample.numbers.get("first steps", 0.0) > alone,
        "always: it trains": lambda case: False,
    }
    sick = by_rule["orthoscope, after first steps"]
    return {
        **model.as_data(),
        "sick_above": SICK_ABOVE,
        "rounds": rounds,
        "fitted_to": len(open_),
        "rules": {name: vars(rates([(rule(one), one.sample.fails) for one in held])) for name, rule in by_rule.items()},
        "by_optimizer": {
            optimizer: vars(_of(chosen, sick)) | {"interval": interval(chosen, sick)}
            for optimizer in ("adamw", "sgd", "muon")
            if (chosen := [case for case in held if case.sample.optimizer == optimizer])
        },
        "by_kind": {
            kind: vars(_of([case for case in held if case.kind == kind], sick))
            for kind in sorted({case.kind for case in held})
        },
        "grid": vars(_of([case for case in found if case.held_out and case.row.family == GRID], sick)),
        "reliability": _reliability(held, risks),
        "localization": _localization([case for case in found if case.row.family != GRID]),
    }


def _of(chosen: Sequence[Case], sick: Callable[[Case], bool]) -> Rates:
    return rates([(sick(case), case.sample.fails) for case in chosen]) if chosen else Rates(0.0, None, None, 0, 0)


def _threshold(samples: Sequence[Sample], name: str) -> float:
    """The limit on one number that misclassifies fewest."""
    values = sorted({sample.numbers[name] for sample in samples if name in sample.numbers})
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    return min(middles, key=lambda limit: sum((s.numbers.get(name, 0.0) > limit) != s.fails for s in samples))


def _reliability(held: Sequence[Case], risks: Mapping[int, float]) -> list[dict[str, float]]:
    """Mean risk, share that does not train and number of networks, by the size of the risk."""
    found = []
    for low, high in _BINS:
        part = [case for case in held if low <= risks[id(case)] < high]
        if part:
            share = sum(case.sample.fails for case in part) / len(part)
            mean = sum(risks[id(case)] for case in part) / len(part)
            found.append({"risk": mean, "share": share, "networks": len(part)})
    return found


def _localization(found: Sequence[Case]) -> dict[str, int]:
    """Faults in one module that hurt training, those named at all, and those named at that module."""
    pairs = [
        (case.row.named, Member(case.row.family, case.row.intervention).fault) for case in found if case.sample.fails
    ]
    faulty = [(named, fault) for named, fault in pairs if fault]
    return {
        "faults": len(faulty),
        "named": sum(bool(named) for named, _ in faulty),
        "right": sum(is_near(named, fault) for named, fault in faulty),
    }


def section(entry: Mapping[str, Any]) -> list[str]:
    """The part of docs/calibration.md about verdicts with an optimizer."""
    return [
        "## With an optimizer: after the first steps",
        "",
        "`diagnose(model, batch, loss, optimizer=…)` takes ten steps on copies of the network at three learning rates. "
        f"The probability is then a sum of limits, fitted to {entry['fitted_to']} trained networks by boosting "
        f"({entry['rounds']} rounds, chosen by cross-validation over families); sick is a risk above "
        f"{entry['sick_above']:g}. Rates below are of families that nothing was fitted to: small members of 40 "
        "families that people train (Transformers, convolutional, recurrent, graph, state-space and expert networks, "
        "mixers, generative ones), each after up to 40 interventions, trained for 100 steps at three learning rates on "
        "images, text, graphs or noise. A network *trains* if it learns at least half "
        "of what the untouched member of its family learns with the same optimizer.",
        "",
        "| rule | accuracy | false alarms | caught | networks |",
        "|---|---|---|---|---|",
        *(f"| {name} | {_rates(one)} |" for name, one in entry["rules"].items()),
        "",
        "| optimizer | accuracy | false alarms | caught | networks | 95 % interval of the accuracy |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {_rates(one)} | {one['interval'][0]:.1%} to {one['interval'][1]:.1%} |"
            for name, one in entry["by_optimizer"].items()
        ),
        "",
        "| kind of network | accuracy | false alarms | caught | networks |",
        "|---|---|---|---|---|",
        *(f"| {name} | {_rates(one)} |" for name, one in entry["by_kind"].items()),
        f"| networks of the grid above, held out | {_rates(entry['grid'])} |",
        "",
        "| risk stated, mean | share that does not train | networks held out |",
        "|---|---|---|",
        *(f"| {one['risk']:.2f} | {one['share']:.2f} | {one['networks']} |" for one in entry["reliability"]),
        "",
        f"Of {entry['localization']['faults']} networks that do not train because of a fault in one module, the "
        f"diagnosis names a module for {entry['localization']['named']}, and for {entry['localization']['right']} the "
        "one at fault, or one that holds it or is held by it.",
        "",
    ]


def _rates(one: Mapping[str, Any]) -> str:
    def percent(value: float | None) -> str:
        return "–" if value is None else f"{value:.1%}"

    caught = f"{percent(one['caught'])} of {one['failures']}"
    return f"{percent(one['accuracy'])} | {percent(one['false_alarms'])} | {caught} | {one['networks']}"
