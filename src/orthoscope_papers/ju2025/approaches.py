"""Ju (2025), slides: penalties, manifolds, parametrizations and Muon on one task: time, orthogonality, loss, spectra.

The slides survey three ways to orthogonal weights, and Muon, whose updates are orthogonal, and print no experiment.
Here a deep tanh network and a shallow one, both of square layers, learn the digits by each of them. Every arm tries as
many settings (learning rate, or rate and weight of the penalty) from a seed and on held-out data of their own, and then
trains from every seed; all but one begin with the same orthogonal weights. Times are medians of a step on the machine
that the table names; nothing is concluded from them in `check`.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from orthoscope_papers.evidence import Evidence, Verdict, interval, trend
from orthoscope_papers.ju2025.arms import APPROACHES, ARMS, MANIFOLD, MUON, PARAMETRIZATION, PENALTY, Trial
from orthoscope_papers.ju2025.measured_training import CHOICE, COMPARISON, QUANTILES, Budget, Row, training
from orthoscope_papers.panels import Math, Panel, averaged

CLAIM = (
    "Optimizers on the manifold and parametrizations keep weights orthogonal to rounding at every step, penalties keep "
    "them near it, and free training leaves it, in a deep network not as far as Gaussian weights, whose spectrum "
    "reaches to zero. Muon leaves weights free and makes updates of one RMS → RMS norm in all layers, as no other does "
    "in a deep one."
)
KIND = "training"

CHOICE_SEED = 1000
DEEP, SHALLOW = "deep", "shallow"
ROUNDING = 1e-4  # float32: 64 x 64 entries of 1e-7, over a hundred steps
EVEN = 1.05  # the largest over the smallest norm of the layers' updates, if they are called the same
GAUSSIAN, FREE = "Adam, Gaussian start", "Adam"
CURVES = (GAUSSIAN, FREE, "SO", "Riemannian SGD", "Cayley", MUON)  # one arm of every approach


@dataclass(frozen=True)
class Config:
    depth: int = 16
    shallow_depth: int = 2
    steps: int = 60
    evaluations: int = 5
    batch: int = 64
    trials: tuple[int, ...] = (0, 1, 2, 3)  # which of an arm's settings are tried
    networks: tuple[str, ...] = (DEEP, SHALLOW)
    arms: tuple[str, ...] = tuple(ARMS)
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(depth=8, shallow_depth=1, steps=10, evaluations=2, trials=(1,), seeds=(0, 1))


def run(config: Config) -> list[Row]:
    """For every network and arm: all settings from one seed, then the best of them from every other seed."""
    budget = Budget(config.steps, config.evaluations, config.batch)
    rows = []
    for network, arm in product(config.networks, config.arms):
        depth = config.depth if network == DEEP else config.shallow_depth
        trials = [ARMS[arm].trials[index] for index in config.trials]
        tried = [training(network, depth, arm, trial, CHOICE, CHOICE_SEED, budget)[-1] for trial in trials]
        best = min(tried, key=lambda row: row.loss)
        trial = Trial(best.learning_rate, best.penalty_weight)
        rows += tried
        for seed in config.seeds:
            rows += training(network, depth, arm, trial, COMPARISON, seed, budget)
    return rows


def cells(config: Config) -> list[Config]:
    """One network and arm each."""
    return [replace(config, networks=(network,), arms=(arm,)) for network, arm in product(config.networks, config.arms)]


def compared(rows: Sequence[Row], network: str, arm: str) -> list[Row]:
    """The rows of an arm at its best setting, all steps."""
    return [row for row in rows if (row.network, row.arm, row.stage) == (network, arm, COMPARISON)]


def final(rows: Sequence[Row], network: str, arm: str) -> list[Row]:
    """The last row of every seed."""
    own = compared(rows, network, arm)
    last = max(row.step for row in own)
    return [row for row in own if row.step == last]


def differences(rows: Sequence[Row], network: str, arm: str, other: str) -> list[float]:
    """Final loss of an arm less that of another, seed by seed."""
    return [a.loss - b.loss for a, b in zip(final(rows, network, arm), final(rows, network, other), strict=True)]


def of_approach(*approaches: str) -> list[str]:
    return [name for name, arm in ARMS.items() if arm.approach in approaches]


def check(rows: list[Row]) -> dict[str, bool]:
    """Final losses by their differences from the same seed; intervals are of two standard errors."""
    networks = list(dict.fromkeys(row.network for row in rows))
    exact = [row for row in rows if row.approach in (MANIFOLD, PARAMETRIZATION) and row.stage == COMPARISON]
    return {
        "on the manifold and by construction weights are orthogonal to rounding, at every measurement": all(
            row.deviation < ROUNDING for row in exact
        ),
        "so all their singular values are 1 to rounding": all(
            max(1 - row.spectrum_0, row.spectrum_100 - 1) < ROUNDING for row in exact
        ),
        "free training leaves the manifold on which it began, and penalties hold it nearer, but not on it": all(
            interval(_deviations(rows, network, name))[2] < interval(_deviations(rows, network, FREE))[1]
            and interval(_deviations(rows, network, name))[1] > ROUNDING
            for network in networks
            for name in of_approach(PENALTY)
        ),
        "in the deep network the smallest singular value from Gaussian weights is a tenth, at most, of that from "
        "orthogonal ones": 10 * max(_smallest(rows, DEEP, GAUSSIAN)) < min(_smallest(rows, DEEP, FREE)),
        "updates of Muon have one norm in all layers, within a twentieth": all(
            unevenness(rows, network, MUON) < EVEN for network in networks
        ),
        "in the deep network those of no other arm have": all(
            unevenness(rows, DEEP, name) > EVEN for name in ARMS if name != MUON
        ),
    }


def unevenness(rows: Sequence[Row], network: str, arm: str) -> float:
    """The largest over the smallest RMS → RMS norm of the layers' updates, mean over all measurements."""
    return statistics.fmean(row.update_high / row.update_low for row in compared(rows, network, arm))


def compare(rows: list[Row]) -> list[Evidence]:
    """The slides make statements without numbers; losses are those of the deep network."""
    last = max(row.step for row in rows)
    stated = {
        (GAUSSIAN, FREE): (1, "orthogonal weights keep gradients stable: a better start"),
        **{
            (name, FREE): (-1, "orthogonality mitigates; a free network that begins orthogonal learns too")
            for name in (_best(rows, approach) for approach in (PENALTY, MANIFOLD, PARAMETRIZATION))
        },
        (MUON, FREE): (-1, "records of training speed, on large tasks; as many steps, each at its best setting"),
    }
    found = []
    for (arm, other), (sign, why) in stated.items():
        quantity = f"held-out loss after {last} steps, {arm} less {other}, deep network"
        found.append(trend(quantity, differences(rows, DEEP, arm, other), sign, f"said: {why}"))
    uneven = unevenness(rows, DEEP, MUON)
    usual = min(unevenness(rows, DEEP, name) for name in ARMS if name != MUON)
    why = f"said: Muon controls the change of the output; all others have {usual:.2f} at least"
    same: Verdict = "agrees" if uneven < EVEN < usual else "differs"
    quantity = "largest over smallest RMS → RMS norm of the layers' updates, Muon, deep network"
    return [*found, Evidence(quantity, None, uneven, uneven, uneven, same, why)]


def _best(rows: Sequence[Row], approach: str) -> str:
    """The arm of an approach that ended lowest when settings were chosen: not on the data by which it is compared."""
    tried = [row for row in rows if (row.network, row.stage) == (DEEP, CHOICE)]
    return min(of_approach(approach), key=lambda name: min(row.loss for row in tried if row.arm == name))


def _smallest(rows: Sequence[Row], network: str, arm: str) -> list[float]:
    return [row.spectrum_0 for row in final(rows, network, arm)]


def _deviations(rows: Sequence[Row], network: str, arm: str) -> list[float]:
    return [row.deviation for row in final(rows, network, arm)]


def plot(rows: list[Row]) -> list[Panel]:
    """Losses, orthogonality, time, norms of updates, spectra and learning curves of the arms at their best settings."""
    own = [row for row in rows if row.stage == COMPARISON]
    last = max(row.step for row in own)
    ends = [row for row in own if row.step == last]
    networks = list(dict.fromkeys(row.network for row in own))
    machines = ", ".join(sorted({row.machine for row in own}))
    panels = []
    for network in networks:
        here = [row for row in ends if row.network == network]
        depth, seeds = here[0].depth, len({row.seed for row in here})
        of_seeds = f"mean ± 2 s.e. of {seeds} seeds"
        panels += [
            _arms(here, f"{depth} layers: held-out loss", f"cross-entropy after {last} steps, {of_seeds}", _loss),
            _arms(here, f"{depth} layers: deviation of weights", Math(rf"$\|I - W^T W\|_F$, {of_seeds}"), _deviation),
            _arms(here, f"{depth} layers: time of a step", f"milliseconds, {machines}", _milliseconds),
            _arms(here, f"{depth} layers: norm of the last update", f"RMS → RMS, mean of layers, {of_seeds}", _update),
            _spectra(here, f"{depth} layers: trained weights"),
            _curves([row for row in own if row.network == network], f"{depth} layers: learning curves", of_seeds),
        ]
    return panels


def _loss(row: Row) -> float:
    return row.loss


def _deviation(row: Row) -> float:
    return row.deviation


def _milliseconds(row: Row) -> float:
    return row.milliseconds


def _update(row: Row) -> float:
    return row.update


def _arms(rows: Sequence[Row], title: str, measure: str, number: Callable[[Row], float]) -> Panel:
    """All arms side by side, one style an approach."""
    names = list(ARMS)
    series = []
    for approach in APPROACHES:
        own = [name for name in names if ARMS[name].approach == approach and any(row.arm == name for row in rows)]
        points = {names.index(name) + 1: [number(row) for row in rows if row.arm == name] for name in own}
        series.append(replace(averaged(approach, points), line=False))
    return Panel(title, measure, "", series, log_y=True, x_names=names)


def _spectra(rows: Sequence[Row], title: str) -> Panel:
    series = []
    for name in CURVES:
        own = [row for row in rows if row.arm == name]
        points = {quantile: [_quantile(row, level) for row in own] for level, quantile in enumerate(QUANTILES)}
        series.append(averaged(name, points))
    measure = "singular values of all hidden weights, mean ± 2 s.e."
    return Panel(title, measure, "part of them that is smaller", series)


def _quantile(row: Row, level: int) -> float:
    return (row.spectrum_0, row.spectrum_25, row.spectrum_50, row.spectrum_75, row.spectrum_100)[level]


def _curves(rows: Sequence[Row], title: str, of_seeds: str) -> Panel:
    series = [averaged(name, [(row.step, row.loss) for row in rows if row.arm == name]) for name in CURVES]
    measure = f"held-out cross-entropy, {of_seeds}"
    return Panel(title, measure, "optimizer steps", series, log_y=True)
