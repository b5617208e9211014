r"""Joudaki (2024), figure 3.3: the distance from the fixed point of the mean field falls as width^(-1/2).

The thesis shows $\|G_{20} - G_*\|_F$ for widths 50 to 1000, 10 samples, in logarithmic axes, beside the exponent
$-1/2$ of (3.9). The exponent is right; the proof is not (erratum joudaki2024-lemma-3.3), and the constant, which it
leaves open, is here computed by linear response at the fixed point.
"""

from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024.gram_chains import deep_distances, power, predicted_distance, root_mean_square
from orthoscope_papers.panels import Panel, Series, averaged

CLAIM = (
    "Deep in a network with batch normalization the distance of the Gram matrix from the fixed point of the mean "
    "field falls as width^(-1/2): an empirical law, with a constant that linear response predicts."
)
KIND = "simulation"
PRINTED = -0.5
EXPONENT = 0.06  # how far a fitted exponent may be off: at width 50 higher orders are still a tenth


@dataclass(frozen=True)
class Config:
    activations: tuple[str, ...] = ("identity", "relu", "tanh", "gelu")
    widths: tuple[int, ...] = (50, 100, 200, 500, 1000)
    batch: int = 10
    depth: int = 20
    seeds: tuple[int, ...] = tuple(range(100))


QUICK = Config(activations=("identity", "relu"), widths=(50, 200, 800), seeds=tuple(range(20)))


class Row(NamedTuple):
    activation: str
    batch: int
    width: int
    layer: int
    seed: int
    distance: float  # ‖G - G*‖, Frobenius


def run(config: Config) -> list[Row]:
    rows = []
    for activation, width in product(config.activations, config.widths):
        found = deep_distances(activation, config.batch, width, config.depth, config.seeds)
        rows += [
            Row(activation, config.batch, width, config.depth, seed, value)
            for seed, value in zip(config.seeds, found, strict=True)
        ]
    return rows


def distances(rows: list[Row], activation: str, width: int) -> list[float]:
    """Seed by seed."""
    return [row.distance for row in rows if (row.activation, row.width) == (activation, width)]


def slopes(rows: list[Row], activation: str) -> list[float]:
    """The exponent of every seed's own line through all widths."""
    widths = sorted({row.width for row in rows})
    columns = [distances(rows, activation, width) for width in widths]
    return [power(widths, values) for values in zip(*columns, strict=True)]


def activations(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row.activation for row in rows))


def check(rows: list[Row]) -> dict[str, bool]:
    widest = max(row.width for row in rows)
    exponents = {name: interval(slopes(rows, name), errors=3.0) for name in activations(rows)}
    return {
        f"the exponent is -1/2 within {EXPONENT:g} and three standard errors, for every activation": all(
            low - EXPONENT < PRINTED < high + EXPONENT for _, low, high in exponents.values()
        ),
        "and is neither 0 nor -1, by more than three standard errors": all(
            low > -1 and high < 0 for _, low, high in exponents.values()
        ),
        "at the largest width the root mean square is within 15 % of the predicted constant": all(
            as_predicted(rows, name, widest) for name in exponents
        ),
    }


def as_predicted(rows: list[Row], activation: str, width: int) -> bool:
    """Whether the root mean square is within 15 % of that of theory."""
    measured = root_mean_square(distances(rows, activation, width))
    return abs(measured / predicted_distance(activation, rows[0].batch, width) - 1) < 0.15


def compare(rows: list[Row]) -> list[Evidence]:
    batch, widest = rows[0].batch, max(row.width for row in rows)
    found = []
    for name in activations(rows):
        slope, low, high = interval(slopes(rows, name))
        why = (
            "as (3.9) says, whose proof rests on a false lemma (erratum joudaki2024-lemma-3.3): an empirical law of "
            f"wide networks, from which narrow ones may differ by {EXPONENT:g}"
        )
        inside = low - EXPONENT < PRINTED < high + EXPONENT
        found.append(
            Evidence(f"exponent of width, {name}", PRINTED, slope, low, high, "agrees" if inside else "differs", why)
        )
        mean, low, high = interval(distances(rows, name, widest))
        why = (
            f"no constant in the thesis; theory gives {predicted_distance(name, batch, widest):.3g} (root mean square)"
        )
        constant: Verdict = "agrees" if as_predicted(rows, name, widest) else "differs"
        found.append(Evidence(f"‖G - G*‖ at width {widest}, {name}", None, mean, low, high, constant, why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    widths, seeds = sorted({row.width for row in rows}), len({row.seed for row in rows})
    panels = []
    for name in activations(rows):
        mean, low, high = interval(slopes(rows, name))
        series = [
            averaged("measured", {width: distances(rows, name, width) for width in widths}),
            Series(
                "predicted (root mean square)", widths, [predicted_distance(name, rows[0].batch, w) for w in widths]
            ),
        ]
        panels.append(
            Panel(
                f"{name}: exponent {mean:.3f} ({low:.3f} to {high:.3f})",
                f"‖G − G*‖ at layer {rows[0].layer}, {rows[0].batch} samples, mean ± 2 s.e. of {seeds} networks",
                "width",
                series,
                y_range=(0.03, 10),
                log_x=True,
                log_y=True,
            )
        )
    return panels
