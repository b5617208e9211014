"""Stock architectures at their own initialization, diagnosed on real images, text and sound: people train these.

Every architecture of `stock_list` is built as its package builds it and diagnosed on one batch. None may crash the
diagnosis. One that is called sick is trained, to see which of the two is wrong.
"""

import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from orthoscope import diagnose
from orthoscope.diagnosis import Diagnosis
from orthoscope.findings import State, Verdict
from orthoscope_papers.calibration.stock_list import Architecture, covered, words_of
from orthoscope_papers.calibration.stock_networks import Stock, quiet
from orthoscope_papers.calibration.stock_trainings import STEPS, UNTRAINED, train_proof
from orthoscope_papers.evidence import Evidence, share_of
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "Architectures of timm and transformers at their own initialization are diagnosed without an error, and at most "
    "10 in 100 of them are called sick."
)
KIND = "training"
DATA = ("cifar10",)
SICK_AT_MOST = 0.1


@dataclass(frozen=True)
class Config:
    """Architectures by package and name, the dataset of images, and samples of the batch."""

    names: tuple[str, ...] = tuple(one.key for one in covered())
    dataset: str = "cifar10"
    samples: int = 16
    steps: int = STEPS  # of the trainings of those called sick


QUICK = Config(
    names=("timm:convit_tiny", "transformers:gpt2", "transformers:bert", "transformers:t5", "transformers:vit"),
    dataset="digits",
    samples=8,
    steps=20,
)


class Row(NamedTuple):
    """One architecture. nan and -1: not measured, not trained."""

    package: str
    family: str
    name: str
    task: str  # that is, the loss; a random direction where the network has none
    batch: str  # shape of every argument
    parameters: int
    weight_layers: int
    verdict: str  # empty after an error
    risk: float
    alarms: str  # check, verdict and layer of every finding, separated by semicolons
    numbers: str  # of every check, separated by semicolons
    loss: float  # at initialization
    seconds: float
    error: str
    loss_low: float  # of the trainings of a network called sick
    loss_middle: float
    loss_high: float
    guessing: float
    reference: float
    trains: int


def run(config: Config) -> list[Row]:
    """A row for every architecture."""
    known = {one.key: one for one in covered()}
    return [row(known[name], config) for name in config.names]


def cells(config: Config) -> list[Config]:
    """One architecture each."""
    return [replace(config, names=(name,)) for name in config.names]


def row(one: Architecture, config: Config) -> Row:
    """Build, diagnose and, if it is called sick, train an architecture; an error becomes a row that says it."""
    began = time.perf_counter()
    try:
        with quiet():
            stock = one.build(config.dataset, config.samples)
            losses: list[float] = []
            loss = None if stock.loss is None else partial(_noted, stock, losses)
            diagnosis = diagnose(stock.model, stock.batch(), loss, name=one.name)
            seconds = time.perf_counter() - began
            sick = diagnosis.verdict is Verdict.SICK
            proof = train_proof(one, config.dataset, config.steps) if sick else UNTRAINED
    except Exception as error:
        words = words_of(error)
        return Row(
            one.package, one.family, one.name, "", "", one.parameters, 0, "", math.nan, "", "", math.nan,
            time.perf_counter() - began, words, *UNTRAINED,
        )  # fmt: skip
    shapes = ", ".join(f"{name} {'x'.join(map(str, tensor.shape))}" for name, tensor in stock.arguments.items())
    return Row(
        one.package, one.family, one.name, stock.task, shapes, diagnosis.recording.parameters, diagnosis.weight_layers,
        str(diagnosis.verdict), diagnosis.risk, alarms(diagnosis), numbers(diagnosis), next(iter(losses), math.nan),
        seconds, "", *proof,
    )  # fmt: skip


def _noted(stock: Stock, losses: list[float], output: Any) -> Tensor:
    """The loss of an output, which is kept."""
    value = stock.loss_of(output)
    losses.append(float(value.detach()))
    return value


def alarms(diagnosis: Diagnosis) -> str:
    """What was found: `check: SICK at layer; …`."""
    found = [finding for finding in diagnosis.findings if finding.state is State.FOUND]
    return "; ".join(f"{finding.check}: {finding.severity} at {finding.layer or 'the model'}" for finding in found)


def numbers(diagnosis: Diagnosis) -> str:
    """What was measured: `check=number; …`; a check that was not made is left out."""
    return "; ".join(f"{f.check}={f.measured.value:.4g}" for f in diagnosis.findings if f.measured is not None)


def share(rows: Sequence[Row], verdict: Verdict) -> float:
    """Share of the architectures that were diagnosed with that verdict."""
    seen = [row for row in rows if not row.error]
    return sum(row.verdict == verdict for row in seen) / len(seen)


def by_check(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Names of the architectures that a check calls sick or at risk, `check: SICK` first."""
    found: dict[str, list[str]] = {}
    for one in rows:
        for alarm in filter(None, one.alarms.split("; ")):
            found.setdefault(alarm.partition(" at ")[0], []).append(one.name)
    return dict(sorted(found.items(), key=lambda item: (not item[0].endswith("SICK"), -len(item[1]))))


def check(rows: list[Row]) -> dict[str, bool]:
    sick = share(rows, Verdict.SICK)
    return {
        "no diagnosis fails": not any(row.error for row in rows),
        f"at most {SICK_AT_MOST:.0%} are called sick": sick <= SICK_AT_MOST,
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """No paper has these numbers: the share of the sick is that of the claim."""
    count = len(rows)
    sick, risky = share(rows, Verdict.SICK), share(rows, Verdict.AT_RISK)
    claim = f"{SICK_AT_MOST} at most"
    whole = [
        share_of("share called sick", sick, count, f"of {count} architectures", claim, sick <= SICK_AT_MOST),
        share_of("share called at risk", risky, count, f"of {count} architectures"),
    ]
    packages = Counter(row.package for row in rows)
    parts = [
        share_of(
            f"share called sick, {name}",
            share([row for row in rows if row.package == name], Verdict.SICK),
            number,
            f"of {number} architectures",
        )
        for name, number in packages.items()
    ]
    return [*whole, *parts]


def plot(rows: list[Row]) -> list[Panel]:
    """Risk over the number of weight layers."""
    series = [
        Series(name, [row.weight_layers for row in part], [row.risk for row in part], marks=True, line=False)
        for name in dict.fromkeys(row.package for row in rows)
        if (part := [row for row in rows if row.package == name and math.isfinite(row.risk)])
    ]
    title = f"{len(rows)} stock architectures at initialization"
    return [Panel(title, "risk", "weight layers", series, y_range=(0, 1), log_x=True)]
