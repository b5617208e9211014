r"""Daneshmand, Joudaki & Bach (2021), Figure 4 (joudaki2024, Figure 2.5): a start that orthogonalises samples.

Shown there: the training loss after 30 epochs rises with depth from Xavier's weights, and hardly from iterative
orthogonalisation. Equation (6) takes the root of the singular values of every representation; its $V'$ is a slice of
an orthonormal matrix, which is not orthogonal, and here the orthogonal one that is nearest to it (erratum
daneshmand2021-equation-6). The authors' notebook, which made the figure, inverts the singular values themselves and
keeps the slice. Both are run; from the second, samples are as orthogonal, and at this width and rate SGD diverges.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

from orthoscope.papers.daneshmand2021.averages import averaged
from orthoscope.papers.daneshmand2021.deep_mlp import CLASSES, trained
from orthoscope.papers.drawing import Panel, figure
from orthoscope.papers.evidence import Evidence, student_interval

CLAIM = (
    "Started from iterative orthogonalisation, deep ReLU networks without batch norm learn more in the same time than "
    "from Xavier's weights, and depth slows them less. That is with an orthogonal V'; from the start of the notebook, "
    "narrow networks diverge at the paper's learning rate."
)
KIND = "training"
XAVIER, ITERATIVE, NOTEBOOK = "xavier", "iterative", "notebook"
STARTS = (XAVIER, ITERATIVE, NOTEBOOK)


@dataclass(frozen=True)
class Config:
    """Five eighths of the paper's width, a tenth of its images, smaller batches, three of its depths.

    The width is the largest that leaves all trainings under 20 minutes on 2 cores; that of the paper takes 34.
    """

    datasets: tuple[str, ...] = ("cifar10", "fashion-mnist")
    samples: int = 5000
    layers: tuple[int, ...] = (15, 45, 75)
    starts: tuple[str, ...] = STARTS
    width: int = 500
    batch: int = 100
    epochs: int = 4
    learning_rate: float = 0.01
    seeds: tuple[int, ...] = tuple(range(4))


QUICK = Config(datasets=("digits",), samples=1000, layers=(5, 30), width=64, batch=50, epochs=4, seeds=(0, 1, 2))
FULL = Config(samples=50_000, layers=(15, 30, 45, 60, 75), width=800, batch=500, epochs=30)


class Row(NamedTuple):
    dataset: str
    start: str
    layers: int
    width: int
    seed: int
    gap: float  # at the start, of the last hidden layer
    loss: float  # mean of the last epoch; infinite if training diverged


def run(config: Config) -> list[Row]:
    rows = []
    for cell in cells(config):
        (dataset,), (start,), (layers,), (seed,) = cell.datasets, cell.starts, cell.layers, cell.seeds
        first, *_, last = trained(config, dataset, start, layers, seed)
        rows.append(Row(dataset, start, layers, config.width, seed, first.gap, last.loss))
    return rows


def cells(config: Config) -> list[Config]:
    return [
        replace(config, datasets=(dataset,), seeds=(seed,), layers=(layers,), starts=(start,))
        for dataset in config.datasets
        for seed in config.seeds
        for layers in config.layers
        for start in config.starts
    ]


def by_dataset(rows: list[Row]) -> dict[str, list[Row]]:
    names = dict.fromkeys(row.dataset for row in rows)
    return {name: [row for row in rows if row.dataset == name] for name in names}


def values(rows: list[Row], start: str, layers: int, column: str = "loss") -> list[float]:
    return [getattr(row, column) for row in rows if (row.start, row.layers) == (start, layers)]


def slowdown(rows: list[Row], start: str) -> list[float]:
    """Rise of the loss from the shallowest to the deepest network, seed by seed."""
    depths = [row.layers for row in rows]
    ends = zip(values(rows, start, max(depths)), values(rows, start, min(depths)), strict=True)
    return [deep - shallow for deep, shallow in ends]


def spared(rows: list[Row]) -> list[float]:
    """How much less depth costs from equation (6) than from Xavier's weights, seed by seed."""
    return [a - b for a, b in zip(slowdown(rows, XAVIER), slowdown(rows, ITERATIVE), strict=True)]


def advantage(rows: list[Row], start: str, layers: int) -> list[float]:
    """How much lower than from Xavier's weights the loss ends, seed by seed."""
    return [a - b for a, b in zip(values(rows, XAVIER, layers), values(rows, start, layers), strict=True)]


def check(rows: list[Row]) -> dict[str, bool]:
    """On every data set; differences are from the same seed, intervals Student's of 95 %."""
    found = [_check(of_one) for of_one in by_dataset(rows).values()]
    return {statement: all(one[statement] for one in found) for statement in found[0]}


def _check(rows: list[Row]) -> dict[str, bool]:
    deepest = max(row.layers for row in rows)
    gaps = {start: student_interval(values(rows, start, deepest, "gap")) for start in STARTS}
    return {
        "at the start the deepest network's samples are more orthogonal than from Xavier's weights": all(
            gaps[start][2] < gaps[XAVIER][1] for start in (ITERATIVE, NOTEBOOK)
        ),
        "depth slows learning from Xavier's weights": student_interval(slowdown(rows, XAVIER))[1] > 0,
        "the deepest network learns more from equation (6), corrected": (
            student_interval(advantage(rows, ITERATIVE, deepest))[1] > 0
        ),
        "depth slows it less than from Xavier's weights, in the mean of the seeds": statistics.fmean(spared(rows)) > 0,
    }


def diverged(rows: list[Row], start: str, layers: int) -> list[float]:
    """1 for every training that diverged, else 0."""
    return [float(math.isinf(loss)) for loss in values(rows, start, layers)]


def compare(rows: list[Row]) -> list[Evidence]:
    """The paper shows curves without numbers."""
    return [evidence for name, of_one in by_dataset(rows).items() for evidence in _compare(name, of_one)]


def _compare(dataset: str, rows: list[Row]) -> list[Evidence]:
    deepest, shallowest = max(row.layers for row in rows), min(row.layers for row in rows)
    gain, slower, slow = (
        student_interval(found)
        for found in (advantage(rows, ITERATIVE, deepest), slowdown(rows, XAVIER), slowdown(rows, ITERATIVE))
    )
    ends = " and ".join(f"{statistics.fmean(values(rows, start, deepest)):.3f}" for start in (XAVIER, ITERATIVE))
    shallow = statistics.fmean(advantage(rows, ITERATIVE, shallowest))
    rise = f"rise of the loss from {shallowest} to {deepest} layers"
    broken = student_interval(diverged(rows, NOTEBOOK, deepest))
    return [
        Evidence(
            f"{dataset}: loss from Xavier's weights minus that from equation (6), orthogonal V', {deepest} layers",
            None,
            *gain,
            "agrees" if gain[1] > 0 else "differs",
            f"loss {ends}; at {shallowest} layers it is {shallow:+.3f} lower; width {rows[0].width}",
        ),
        Evidence(
            f"{dataset}: {rise}, from Xavier's weights",
            None,
            *slower,
            "agrees" if slower[1] > 0 else "differs",
            "slowdown",
        ),
        Evidence(
            f"{dataset}: {rise}, from equation (6)",
            None,
            *slow,
            "agrees" if student_interval(spared(rows))[1] > 0 else "differs",
            f"shown as all but gone; it is {slow[0] / slower[0]:.2f} of that from Xavier's weights",
        ),
        Evidence(
            f"{dataset}: share of trainings that diverge from the start of the notebook, {deepest} layers",
            None,
            *broken,
            "differs" if broken[0] > 0 else "agrees",
            "the figure was made from this start, with wider layers and larger batches; its slice is not orthogonal",
        ),
    ]


def plot(rows: list[Row]) -> str:
    panels = [panel for name, of_one in by_dataset(rows).items() for panel in _panels(name, of_one)]
    return figure(panels, columns=2)


def _panels(dataset: str, rows: list[Row]) -> list[Panel]:
    depths, seeds = sorted({row.layers for row in rows}), len({row.seed for row in rows})
    across, of = (depths[0], depths[-1]), f"mean and 95% interval of {seeds} runs"
    labels = {XAVIER: "Xavier", ITERATIVE: "equation (6), orthogonal V'", NOTEBOOK: "notebook: inverse singular values"}
    finite = [row for row in rows if math.isfinite(row.loss)]
    losses = [
        averaged(label, [(r.layers, r.loss) for r in finite if r.start == start], of=student_interval)
        for start, label in labels.items()
        if any(row.start == start for row in finite)
    ]
    gaps = [
        averaged(label, [(r.layers, r.gap) for r in rows if r.start == start], of=student_interval)
        for start, label in labels.items()
    ]
    up = (0.9 * min(row.loss for row in finite), 1.1 * math.log(CLASSES))
    guess = [("guessing", math.log(CLASSES))]
    title = f"{dataset}, width {rows[0].width}"
    return [
        Panel(f"{title}, trained", f"training loss, {of}", "layers", across, up, losses, guess),
        Panel(f"{title}, at the start", f"V of the last hidden layer, {of}", "layers", across, (0, 1), gaps),
    ]
