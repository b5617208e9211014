r"""Joudaki (2024), Figure C.10: whether batch norm takes the mean out does not matter to gradients in depth.

Orthogonal weights, identity, width and batch 100, images. Centered, the samples span one dimension less than there are
units, so that they are dependent, and yet hardly anything explodes: by `figure_6_2.interpolated_growth` one dimension
of 100 costs .00005 a layer.
"""

from dataclasses import dataclass, replace

from orthoscope.chains import Chain
from orthoscope.theory import gradient_growth
from orthoscope_papers.evidence import Evidence, Verdict, interval
from orthoscope_papers.joudaki2024.first_gradients import (
    GradientConfig,
    Row,
    curve,
    first_gradients,
    image_starts,
    late_growth,
    panel,
)
from orthoscope_papers.panels import Panel

__all__ = ["CLAIM", "FULL", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = "With orthogonal weights and the identity, gradients stay bounded in depth whether batch norm centers or not."
KIND = "simulation"
DATA = ("cifar10",)
NORMS = {"batch": "standard, centered", "batch_uncentered": "without centering"}


@dataclass(frozen=True)
class Config(GradientConfig):
    norms: tuple[str, ...] = tuple(NORMS)
    depths: tuple[int, ...] = (5, 10, 20, 50, 100, 200, 400)


QUICK = Config(data="digits", width=20, batch=20, depths=(5, 10, 20, 50, 100, 150, 200), seeds=tuple(range(8)))
FULL = Config(depths=(5, 10, 20, 50, 100, 200, 500, 1000))


def cells(config: Config) -> list[Config]:
    """One normalization each."""
    return [replace(config, norms=(norm,)) for norm in config.norms]


def run(config: Config) -> list[Row]:
    """Both normalizations, on the same images."""
    images = image_starts(config)
    rows = []
    for norm in config.norms:
        rows += first_gradients(NORMS[norm], Chain(config.width, init="orthogonal", norm=norm), config, images)
    return rows


def check(rows: list[Row]) -> dict[str, bool]:
    """No explosion in either, and alike."""
    explosion = gradient_growth(rows[0].batch, centered=True)  # of wide Gaussian networks
    growth = {name: late_growth(rows, name, 3.0) for name in NORMS.values()}
    deepest = max(row.depth for row in rows)
    levels = [interval(curve(rows, name)[deepest])[0] for name in NORMS.values()]
    return {
        f"growth of the log-gradient with {name}: less than a quarter of that of wide Gaussian networks": (
            growth[name][2] < 0.25 * explosion
        )
        for name in growth
    } | {"at the largest depth the two are within a factor e": abs(levels[0] - levels[1]) < 1}


def compare(rows: list[Row]) -> list[Evidence]:
    """Growth per layer of both."""
    explosion = gradient_growth(rows[0].batch, centered=True)
    found = []
    for name in NORMS.values():
        mean, low, high = late_growth(rows, name)
        verdict: Verdict = "agrees" if high < 0.25 * explosion else "differs"
        why = f"bounded is less than a quarter of {explosion:.4f}, by which wide Gaussian networks grow"
        found.append(Evidence(f"growth of log ‖∇W₁‖ a layer, {name}", 0.0, mean, low, high, verdict, why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """One panel, a line a normalization."""
    return [panel(rows, f"Width and batch {rows[0].width}, orthogonal weights", list(NORMS.values()))]
