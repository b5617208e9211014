r"""Joudaki (2024), sections 4.2 and 4.3: what normalization does to isometry, on random and on real batches.

The thesis proves, without an experiment, that dividing samples by their lengths $a$ never lowers the isometry of their
Gram matrix. It is an identity, $\mathcal{I}(\tilde G)/\mathcal{I}(G) =
\operatorname{mean}(a^2)/\operatorname{GM}(a)^2$, measured here. The corollaries are about layers: 4.4 about layer
normalization, which also centers, and so holds for RMS normalization or centered samples only; 4.5 about batch
normalization, not centered and with no more units than samples.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.metrics import isometry_gap
from orthoscope.theory import isometry_gain, isometry_gain_bound
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024.shaped_network import dataset
from orthoscope_papers.panels import Panel, Series, averaged, side_by_side

CLAIM = (
    "Dividing vectors by their lengths never lowers isometry: it multiplies it by mean(a²)/GM(a)², exactly. That is "
    "RMS normalization of samples, or batch normalization of units without centering; centering first can lower it."
)
KIND = "simulation"
FULL_DATA = ("mnist", "cifar10")
ROUNDING = 1e-8
# What is normalized, samples or units over the batch, and whether their mean is taken out first.
NORMS = {
    "rms": ("samples", False),
    "layer": ("samples", True),
    "batch-uncentered": ("units", False),
    "batch": ("units", True),
}

Vectors = Float[Tensor, "vectors entries"]


@dataclass(frozen=True)
class Config:
    batches: tuple[str, ...] = ("gaussian", "sphere", "uneven", "shared", "digits")
    samples: int = 16
    entries: int = 64  # of random samples
    units: int = 16  # of the random layer before batch normalization
    spare: int = 4  # samples that batch normalization sees beyond as many as units
    seeds: tuple[int, ...] = tuple(range(50))


QUICK = Config(seeds=tuple(range(20)))
FULL = Config(batches=("gaussian", "sphere", "uneven", "shared", "digits", "mnist", "cifar10"))


class Row(NamedTuple):
    """Isometry gaps ψ = -log I before, after centering (the same if there is none) and after division by lengths."""

    batch: str
    norm: str
    seed: int
    gap_before: float
    gap_centered: float
    gap_after: float
    log_gain: float  # log mean(a²)/GM(a)², of the lengths that are divided by
    log_bound: float  # log(1 + var(a)/mean(a)²), of the same
    log_printed: float  # the same of the lengths before centering, as the corollaries have it


def _gaussian(count: int, entries: int, generator: torch.Generator) -> Vectors:
    return torch.randn(count, entries, generator=generator, dtype=torch.float64)


def _sphere(count: int, entries: int, generator: torch.Generator) -> Vectors:
    return unit(_gaussian(count, entries, generator))


def _uneven(count: int, entries: int, generator: torch.Generator) -> Vectors:
    return _gaussian(count, 1, generator).exp() * _gaussian(count, entries, generator)


def _shared(count: int, entries: int, generator: torch.Generator) -> Vectors:
    return 1 + _gaussian(count, entries, generator)


RANDOM: dict[str, Callable[[int, int, torch.Generator], Vectors]] = {
    "gaussian": _gaussian,
    "sphere": _sphere,  # of one length
    "uneven": _uneven,  # log-normal lengths
    "shared": _shared,  # with a mean that all samples have
}


def batch_of(name: str, count: int, config: Config, generator: torch.Generator) -> Vectors:
    """Random samples by the name of their law, or the pixels of a dataset, in [0, 1]."""
    if name in RANDOM:
        return RANDOM[name](count, config.entries, generator)
    return dataset(name).batch(count, generator)[0].flatten(1).double()


def vectors_of(kind: str, name: str, config: Config, generator: torch.Generator) -> Vectors:
    """What a layer normalizes: the samples, or the units of a random layer over the batch."""
    if kind == "samples":
        return batch_of(name, config.samples, config, generator)
    inputs = batch_of(name, config.units + config.spare, config, generator)
    return _gaussian(config.units, inputs.shape[-1], generator) @ inputs.mT


def unit(vectors: Vectors) -> Vectors:
    """Divided by their lengths."""
    return vectors / vectors.norm(dim=-1, keepdim=True)


def run(config: Config) -> list[Row]:
    rows = []
    for name, norm, seed in product(config.batches, NORMS, config.seeds):
        kind, centered = NORMS[norm]
        vectors = vectors_of(kind, name, config, torch.Generator().manual_seed(seed))
        central = vectors - vectors.mean(-1, keepdim=True) if centered else vectors
        gaps = [float(isometry_gap(stage)) for stage in (vectors, central, unit(central))]
        lengths = central.norm(dim=-1)
        gains = isometry_gain(lengths), isometry_gain_bound(lengths), isometry_gain_bound(vectors.norm(dim=-1))
        rows.append(Row(name, norm, seed, *gaps, *(float(gain.log()) for gain in gains)))
    return rows


def chosen(rows: list[Row], norm: str, batch: str | None = None) -> list[Row]:
    return [row for row in rows if row.norm == norm and batch in (None, row.batch)]


def rise(row: Row) -> float:
    """By how much normalization, with its centering, raises log I."""
    return row.gap_before - row.gap_after


def printed_holds(row: Row) -> bool:
    """Corollary 4.4 or 4.5 as printed: the rise is at least what the lengths before centering promise."""
    return rise(row) >= row.log_printed - ROUNDING


def check(rows: list[Row]) -> dict[str, bool]:
    plain = [row for row in rows if not NORMS[row.norm][1]]
    names = {row.batch for row in rows}
    return {
        "dividing by lengths multiplies isometry by mean(a²)/GM(a)², in every batch and for every norm": all(
            abs(row.gap_centered - row.gap_after - row.log_gain) < ROUNDING * (1 + row.gap_centered) for row in rows
        ),
        "so that without centering isometry never falls, and by no less than the bound of Theorem 4.3": all(
            rise(row) >= row.log_bound - ROUNDING and row.log_bound >= -ROUNDING for row in plain
        ),
        "which is not an equality, as (4.7) has it: the rise is more wherever lengths differ": all(
            row.log_gain > row.log_bound for row in rows if row.log_bound > 1e-6
        ),
        "real batches gain: RMS normalization raises the isometry of every batch of digits": all(
            rise(row) > 0 for row in chosen(rows, "rms", "digits")
        )
        and "digits" in names,
        "Corollary 4.4 as printed fails: samples of one length lose isometry by layer normalization": any(
            not printed_holds(row) for row in chosen(rows, "layer", "sphere")
        ),
        "Corollary 4.5 with a centering batch normalization fails too": any(
            not printed_holds(row) for row in chosen(rows, "batch")
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    reasons = {
        "rms": ("Theorem 4.3", "an identity"),
        "layer": ("Corollary 4.4", "erratum joudaki2024-corollary-4.4: centering can lower isometry"),
        "batch-uncentered": (
            "Corollary 4.5",
            "with the mean of lengths over units (erratum joudaki2024-corollary-4.5)",
        ),
        "batch": ("Corollary 4.5, centered", "erratum joudaki2024-corollary-4.5-centering"),
    }
    found = []
    for norm, (where, why) in reasons.items():
        share = interval([float(printed_holds(row)) for row in chosen(rows, norm)])
        centered = NORMS[norm][1]
        verdict: Verdict = "agrees" if share[0] == 1 else "corrected" if centered else "differs"
        found.append(Evidence(f"share of batches for which {where} holds ({norm})", 1.0, *share, verdict, why))
    digits = chosen(rows, "rms", "digits")
    bound = statistics.fmean(row.log_bound for row in digits)
    why = "(4.7) states the bound as an equality; the ratio is mean(a²)/GM(a)² (erratum joudaki2024-equation-4.7)"
    ends = interval([rise(row) for row in digits])
    more: Verdict = "corrected" if ends[1] > bound else "agrees"
    return [*found, Evidence("log I(G̃)/I(G), digits, RMS", bound, *ends, more, why)]


def plot(rows: list[Row]) -> list[Panel]:
    """Rises of log I against the batches, one panel a norm."""
    names, panels = list(dict.fromkeys(row.batch for row in rows)), []
    places = list(range(1, len(names) + 1))
    for norm, (kind, centered) in NORMS.items():
        own = {place: chosen(rows, norm, name) for place, name in zip(places, names, strict=True)}
        series = [
            averaged("measured rise of log I", {place: [rise(row) for row in group] for place, group in own.items()}),
            Series(
                "log mean(a²)/GM(a)²",
                places,
                [statistics.fmean(row.log_gain for row in group) for group in own.values()],
            ),
            Series(
                "the bound as printed",
                places,
                [statistics.fmean(row.log_printed for row in group) for group in own.values()],
            ),
        ]
        title = f"{norm}: {kind}{', centered' if centered else ''}"
        measure = f"mean ± 2 s.e. of {len(own[1])} batches"
        ends = [value for group in own.values() for row in group for value in (rise(row), row.log_gain)]
        low, high = min(0.0, *ends), max(0.1, *ends)
        panels.append(
            Panel(
                title, measure, "batch", side_by_side(series), [("no change", 0.0)], y_range=(low, high), x_names=names
            )
        )
    return panels
