r"""Joudaki (2024), figure 3.4: how the distance from the fixed point of the mean field grows with the batch.

The thesis shows $\|G_{20} - G_*\|_F$ for 10 to 50 samples at width 1000 below a line of order $n/\sqrt d$, the second
term of (3.9). That is for bounded $\kappa(G_*)$, which ReLU does not have as batches grow, nor linear networks, whose
centered $G_*$ is singular and which grow as $n^{3/2}$; tanh has it and still grows a little faster than $n$. The
prediction drawn is that of linear response at the fixed point; the bound of Theorem 3.2 has no constant to draw, and
its proof rests on a false lemma (erratum joudaki2024-lemma-3.3).
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from orthoscope.theory import gram_condition
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.joudaki2024.gram_chains import deep_distances, power, predicted_distance, root_mean_square
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "The distance of the Gram matrix from the fixed point of the mean field grows faster than the batch size n: "
    "between 10 and 50 samples about as n^1.2 for tanh, n^1.3 for ReLU and n^1.5 for linear networks, as linear "
    "response predicts."
)
KIND = "simulation"
PRINTED = 1.0


@dataclass(frozen=True)
class Config:
    activations: tuple[str, ...] = ("identity", "relu", "tanh")
    batches: tuple[int, ...] = (10, 20, 30, 40, 50)
    width: int = 1000
    depth: int = 40  # 20 in the thesis: linear networks of 50 samples forget at 49/51 a layer and need more
    seeds: tuple[int, ...] = tuple(range(20))


QUICK = Config(activations=("identity", "relu"), batches=(8, 16, 32), width=500, seeds=tuple(range(8)))
FULL = Config(depth=20, seeds=tuple(range(100)))


class Row(NamedTuple):
    activation: str
    batch: int
    width: int
    layer: int
    seed: int
    distance: float  # ‖G - G*‖, Frobenius


def run(config: Config) -> list[Row]:
    rows = []
    for activation, batch in product(config.activations, config.batches):
        found = deep_distances(activation, batch, config.width, config.depth, config.seeds)
        rows += [
            Row(activation, batch, config.width, config.depth, seed, value)
            for seed, value in zip(config.seeds, found, strict=True)
        ]
    return rows


def distances(rows: list[Row], activation: str, batch: int) -> list[float]:
    """Seed by seed."""
    return [row.distance for row in rows if (row.activation, row.batch) == (activation, batch)]


def batches(rows: list[Row]) -> list[int]:
    return sorted({row.batch for row in rows})


def slopes(rows: list[Row], activation: str) -> list[float]:
    """The exponent of every seed's own line through all batch sizes."""
    columns = [distances(rows, activation, batch) for batch in batches(rows)]
    return [power(batches(rows), values) for values in zip(*columns, strict=True)]


def predicted_power(rows: list[Row], activation: str) -> float:
    """The exponent of the line through the predicted distances."""
    levels = [predicted_distance(activation, batch, rows[0].width) for batch in batches(rows)]
    return power(batches(rows), levels)


def activations(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.activation for row in rows))


def check(rows: list[Row]) -> dict[str, bool]:
    exponents = {name: interval(slopes(rows, name), errors=3.0) for name in activations(rows)}
    bounded = [name for name in exponents if gram_condition(name, batches(rows)[-1]) < float("inf")]
    others = [name for name in exponents if name not in bounded]
    return {
        "the root mean square is within 20 % of the prediction at every batch size": all(
            abs(root_mean_square(distances(rows, name, batch)) / predicted_distance(name, batch, rows[0].width) - 1)
            < 0.2
            for name, batch in product(exponents, batches(rows))
        ),
        "so is the exponent, within 0.1 and three standard errors": all(
            low - 0.1 < predicted_power(rows, name) < high + 0.1 for name, (_, low, high) in exponents.items()
        ),
        "where the fixed point is singular the exponent is above 1 by more than three standard errors": bool(others)
        and all(exponents[name][1] > PRINTED for name in others),
        "the distance grows with the batch, for every activation": all(low > 0 for _, low, _ in exponents.values()),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    found = []
    for name in activations(rows):
        slope, low, high = interval(slopes(rows, name))
        theory = f"linear response predicts {predicted_power(rows, name):.2f} over these sizes"
        if low - 0.1 < PRINTED < high + 0.1:
            found.append(Evidence(f"exponent of the batch, {name}", PRINTED, slope, low, high, "agrees", theory))
            continue
        small, large = (gram_condition(name, batches(rows)[end]) for end in (0, -1))
        bounded = "has κ(G*) bounded" if large < small else f"needs κ(G*) bounded and finds {small:.3g} and {large:.3g}"
        why = f"(3.9), {bounded}, rests on a false lemma (erratum joudaki2024-lemma-3.3); {theory}"
        found.append(Evidence(f"exponent of the batch, {name}", PRINTED, slope, low, high, "differs", why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    sizes, seeds = batches(rows), len({row.seed for row in rows})
    panels = []
    for name in activations(rows):
        mean, low, high = interval(slopes(rows, name))
        levels = [predicted_distance(name, size, rows[0].width) for size in sizes]
        series = [
            averaged("measured", {size: distances(rows, name, size) for size in sizes}),
            Series("predicted (root mean square)", sizes, levels),
            Series("n/√d through its first point", sizes, [levels[0] * size / sizes[0] for size in sizes]),
        ]
        panels.append(
            Panel(
                f"{name}: exponent {mean:.2f} ({low:.2f} to {high:.2f})",
                f"‖G − G*‖ at layer {rows[0].layer}, width {rows[0].width}, mean ± 2 s.e. of {seeds} networks",
                "samples in the batch",
                series,
                y_range=(0.1, 30),
                log_x=True,
                log_y=True,
            )
        )
    return panels
