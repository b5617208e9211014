"""The page that compares the approaches: losses, orthogonality, time, spectra and norms of updates, arm by arm."""

import math
from collections.abc import Callable, Sequence

from orthoscope.papers.drawing import Panel, Series, figure
from orthoscope.papers.evidence import interval
from orthoscope.papers.ju2025.arms import APPROACHES, ARMS
from orthoscope.papers.ju2025.measured_training import COMPARISON, QUANTILES, Row
from orthoscope.report.scales import whole_decades

# One of every approach, for curves; the other panels have all arms.
CURVES = ("Adam, Gaussian start", "Adam", "SO", "Riemannian SGD", "Cayley", "Muon")


def comparison_page(rows: Sequence[Row]) -> str:
    """Two columns of panels for the networks, from the rows of the arms at their best settings."""
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
            _arms(here, f"{depth} layers: deviation of weights", f"‖I − WᵀW‖_F, {of_seeds}", _deviation),
            _arms(here, f"{depth} layers: time of a step", f"milliseconds, {machines}", _milliseconds),
            _arms(here, f"{depth} layers: norm of the last update", f"RMS → RMS, mean of layers, {of_seeds}", _update),
            _spectra(here, f"{depth} layers: trained weights"),
            _curves([row for row in own if row.network == network], f"{depth} layers: learning curves", of_seeds),
        ]
    return figure(panels, columns=3)


def _loss(row: Row) -> float:
    return row.loss


def _deviation(row: Row) -> float:
    return row.deviation


def _milliseconds(row: Row) -> float:
    return row.milliseconds


def _update(row: Row) -> float:
    return row.update


def _arms(rows: Sequence[Row], title: str, measure: str, number: Callable[[Row], float]) -> Panel:
    """All arms side by side, one look an approach; the legend numbers them."""
    names = list(ARMS)
    series = []
    for approach in APPROACHES:
        own = [name for name in names if ARMS[name].approach == approach and any(row.arm == name for row in rows)]
        ends = [interval([number(row) for row in rows if row.arm == name]) for name in own]
        label = f"{approach}: " + ", ".join(f"{names.index(name) + 1} {name}" for name in own)
        places = [names.index(name) + 1 for name in own]
        lows = [max(low, mean / 10) for mean, low, _ in ends]  # the axis is logarithmic
        series.append(
            Series(label, places, [m for m, _, _ in ends], lows, [h for _, _, h in ends], marks=True, line=False)
        )
    heights = whole_decades([number(row) for row in rows])
    return Panel(title, measure, "arm", (0.5, len(names) + 0.5), heights, series, logarithmic_up=True)


def _spectra(rows: Sequence[Row], title: str) -> Panel:
    series = []
    for name in CURVES:
        own = [row for row in rows if row.arm == name]
        values = [[_quantile(row, level) for row in own] for level in range(len(QUANTILES))]
        ends = [interval(seeds) for seeds in values]
        series.append(
            Series(name, QUANTILES, [m for m, _, _ in ends], [low for _, low, _ in ends], [h for _, _, h in ends])
        )
    finite = [high for line in series for high in line.high if math.isfinite(high)]
    measure = "singular values of all hidden weights, mean ± 2 s.e."
    return Panel(title, measure, "part of them that is smaller", (0, 1), (0, 1.1 * max(finite, default=1.0)), series)


def _quantile(row: Row, level: int) -> float:
    return (row.spectrum_0, row.spectrum_25, row.spectrum_50, row.spectrum_75, row.spectrum_100)[level]


def _curves(rows: Sequence[Row], title: str, of_seeds: str) -> Panel:
    steps = sorted({row.step for row in rows})
    series = []
    for name in CURVES:
        own = [row for row in rows if row.arm == name]
        ends = [interval([row.loss for row in own if row.step == step]) for step in steps]
        lows = [max(low, mean / 10) for mean, low, _ in ends]
        series.append(Series(name, steps, [m for m, _, _ in ends], lows, [h for _, _, h in ends]))
    heights = whole_decades([row.loss for row in rows])
    measure = f"held-out cross-entropy, {of_seeds}"
    return Panel(title, measure, "optimizer steps", (0, steps[-1]), heights, series, logarithmic_up=True)
