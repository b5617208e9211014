r"""Daneshmand, Joudaki & Bach (2021), Figure 4 (joudaki2024, Figure 2.5): a start that orthogonalizes samples.

Shown there: the training loss after 30 epochs rises with depth from Xavier's weights, and hardly from iterative
orthogonalization. Equation (6) takes the root of the singular values of every representation of a batch; its $V'$ is a
slice of a matrix with orthonormal columns, and is orthogonal only if it is all of that: if the batch has as many
samples as a layer has units. So it is made here, and depth costs nothing. With three times as many, as in the authors'
notebook, and the orthogonal $V'$ nearest to the slice (erratum daneshmand2021-equation-6), a part of the cost of depth
stays. The notebook itself inverts the singular values and keeps the slice; from there SGD diverges at this width and
rate.
"""

import math
import statistics
from dataclasses import dataclass, replace
from typing import NamedTuple

from orthoscope_papers.daneshmand2021.deep_mlp import CLASSES, trained
from orthoscope_papers.evidence import Evidence, student_interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "Started from iterative orthogonalization by a batch of as many samples as a layer has units, deep ReLU networks "
    "without batch norm learn as fast as shallow ones. By three times as many, depth still slows them, though less "
    "than from Xavier's weights, and from the start of the notebook they diverge at the paper's learning rate."
)
KIND = "training"
DATA = ("cifar10", "fashion-mnist")
XAVIER, ITERATIVE, LARGER, NOTEBOOK = "xavier", "iterative", "larger batch", "notebook"
STARTS = (XAVIER, ITERATIVE, LARGER, NOTEBOOK)
NOTHING = 0.1  # of what depth costs from Xavier's weights


@dataclass(frozen=True)
class Config:
    """Five eighths of the paper's width, a tenth of its images, smaller batches, three of its depths.

    The width is the largest that leaves all trainings under 20 minutes on 2 cores; that of the paper would take 46.
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


def spared(rows: list[Row], start: str, than: str = XAVIER) -> list[float]:
    """How much less depth costs from one start than from another, seed by seed."""
    return [a - b for a, b in zip(slowdown(rows, than), slowdown(rows, start), strict=True)]


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
            gaps[start][2] < gaps[XAVIER][1] for start in (ITERATIVE, LARGER, NOTEBOOK)
        ),
        "depth slows learning from Xavier's weights": student_interval(slowdown(rows, XAVIER))[1] > 0,
        "the deepest network learns more from equation (6)": (
            student_interval(advantage(rows, ITERATIVE, deepest))[1] > 0
        ),
        "depth does not slow it: its cost is below a tenth of that from Xavier's weights": (
            student_interval(slowdown(rows, ITERATIVE))[2] < NOTHING * statistics.fmean(slowdown(rows, XAVIER))
        ),
        "by three times as many samples depth slows it less than from Xavier's weights, in the mean": (
            statistics.fmean(spared(rows, LARGER)) > 0
        ),
        "and more than by as many as units": statistics.fmean(spared(rows, ITERATIVE, than=LARGER)) > 0,
    }


def diverged(rows: list[Row], start: str, layers: int) -> list[float]:
    """1 for every training that diverged, else 0."""
    return [float(math.isinf(loss)) for loss in values(rows, start, layers)]


def compare(rows: list[Row]) -> list[Evidence]:
    """The paper shows curves without numbers."""
    return [evidence for name, of_one in by_dataset(rows).items() for evidence in _compare(name, of_one)]


def _compare(dataset: str, rows: list[Row]) -> list[Evidence]:
    deepest, shallowest = max(row.layers for row in rows), min(row.layers for row in rows)
    gain = student_interval(advantage(rows, ITERATIVE, deepest))
    ends = " and ".join(f"{statistics.fmean(values(rows, start, deepest)):.3f}" for start in (XAVIER, ITERATIVE))
    shallow = statistics.fmean(advantage(rows, ITERATIVE, shallowest))
    rise = f"{dataset}: rise of the loss from {shallowest} to {deepest} layers"
    slow = {start: student_interval(slowdown(rows, start)) for start in (XAVIER, ITERATIVE, LARGER)}
    share = {start: f"{found[0] / slow[XAVIER][0]:.2f} of that from Xavier's weights" for start, found in slow.items()}
    spares = student_interval(spared(rows, LARGER))[1] > 0
    gone = slow[ITERATIVE][2] < NOTHING * slow[XAVIER][0]
    broken = student_interval(diverged(rows, NOTEBOOK, deepest))
    return [
        Evidence(
            f"{dataset}: loss from Xavier's weights minus that from equation (6), {deepest} layers",
            None,
            *gain,
            "agrees" if gain[1] > 0 else "differs",
            f"loss {ends}; at {shallowest} layers it is {shallow:+.3f} lower; width {rows[0].width}",
        ),
        Evidence(
            f"{rise}, from Xavier's weights",
            None,
            *slow[XAVIER],
            "agrees" if slow[XAVIER][1] > 0 else "differs",
            "slowdown",
        ),
        Evidence(
            f"{rise}, from equation (6) by as many samples as units",
            None,
            *slow[ITERATIVE],
            "agrees" if gone else "differs",
            f"shown as all but gone; it is {share[ITERATIVE]}",
        ),
        Evidence(
            f"{rise}, from equation (6) by three times as many",
            None,
            *slow[LARGER],
            "agrees" if spares else "differs",
            f"as many as in the notebook, with an orthogonal V'; it is {share[LARGER]}",
        ),
        Evidence(
            f"{dataset}: share of trainings that diverge from the start of the notebook, {deepest} layers",
            None,
            *broken,
            "differs" if broken[0] > 0 else "agrees",
            "the figure was made from this start, with wider layers and larger batches; its slice is not orthogonal",
        ),
    ]


def plot(rows: list[Row]) -> list[Panel]:
    return [panel for name, of_one in by_dataset(rows).items() for panel in _panels(name, of_one)]


def _panels(dataset: str, rows: list[Row]) -> list[Panel]:
    of = f"mean and 95% interval of {len({row.seed for row in rows})} runs"
    labels = {
        XAVIER: "Xavier",
        ITERATIVE: "equation (6), as many samples as units",
        LARGER: "equation (6), three times as many",
        NOTEBOOK: "notebook: inverse singular values",
    }
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
        Panel(f"{title}, trained", f"training loss, {of}", "layers", losses, guess, y_range=up),
        Panel(f"{title}, at the start", f"V of the last hidden layer, {of}", "layers", gaps, y_range=(0, 1)),
    ]
