r"""Joudaki (2024), Figure 6.3: with batch norm gradients explode in depth for Gaussian weights, not orthogonal ones.

Identity activation, batch norm without centering, width and batch 100, images. Near isometry the reason is short:
with $X_\ell$ orthogonal and gradient $A_\ell X_\ell$, going down a layer is
$A_{\ell-1} = W_\ell^\top (A_\ell - \operatorname{diag} A_\ell) W_\ell$, so the antisymmetric half of $A$ is conserved
and nothing can grow. For Gaussian weights `gradient_growth` gives the rate in networks that are much wider than the
batch, $\frac12\log\frac{n-1}{n-2}$, .0051 at $n = 100$; it is drawn for comparison, not as a prediction for $n = d$.
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
from orthoscope_papers.panels import Panel, Series

__all__ = ["CLAIM", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "With batch norm, n = d and independent samples, gradients of the first layer grow exponentially in depth for "
    "Gaussian weights and stay bounded for orthogonal ones."
)
KIND = "simulation"
DATA = ("cifar10",)

PRINTED_GROWTH = {"orthogonal": 0.0, "gaussian": 0.0090}  # a layer, width and batch 100
PRINTED_DEEPEST = {"orthogonal": 0.0, "gaussian": 9.0}  # log-gradient at depth 1000
DEEPEST, PRINTED_WIDTH = 1000, 100


@dataclass(frozen=True)
class Config(GradientConfig):
    inits: tuple[str, ...] = ("orthogonal", "gaussian")


QUICK = Config(data="digits", width=24, batch=24, depths=(5, 10, 20, 50, 100, 150, 200), seeds=tuple(range(6)))


def cells(config: Config) -> list[Config]:
    """One law of the weights each."""
    return [replace(config, inits=(init,)) for init in config.inits]


def run(config: Config) -> list[Row]:
    """Both laws of the weights, on the same images."""
    images = image_starts(config)
    rows = []
    for init in config.inits:
        rows += first_gradients(init, Chain(config.width, init=init, norm="batch_uncentered"), config, images)
    return rows


def check(rows: list[Row]) -> dict[str, bool]:
    """Explosion and none."""
    orthogonal, gaussian = (late_growth(rows, init, 3.0) for init in ("orthogonal", "gaussian"))
    return {
        "Gaussian: the log-gradient grows, zero is more than 3 standard errors away": gaussian[1] > 0,
        "orthogonal: it changes by less than a fifth of that per layer, with 3 standard errors": (
            max(abs(orthogonal[1]), abs(orthogonal[2])) < 0.2 * gaussian[0]
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Growth per layer, and the log-gradient at depth 1000."""
    width, batch, deepest = rows[0].width, rows[0].batch, max(row.depth for row in rows)
    wide = gradient_growth(batch, centered=False)
    found = []
    for init in ("orthogonal", "gaussian"):
        mean, low, high = late_growth(rows, init)
        same = width == batch == PRINTED_WIDTH
        printed = PRINTED_GROWTH[init] if same or init == "orthogonal" else None
        close = printed is None or abs(mean - printed) < max(0.001, high - mean)
        verdict: Verdict = "agrees" if close else "differs"
        why = f"wide networks grow by {wide:.4f}" if init == "gaussian" else "bounded"
        why += "" if close else "; the printed rate is of one batch and ten runs, and why it differs is not known"
        found.append(Evidence(f"growth of log ‖∇W₁‖ a layer, {init}", printed, mean, low, high, verdict, why))
        if same and deepest == DEEPEST:
            ours = interval(curve(rows, init)[DEEPEST])
            close = abs(ours[0] - PRINTED_DEEPEST[init]) < 1
            why = "read off the figure, to about 1"
            verdict = "agrees" if close else "differs"
            found.append(Evidence(f"log ‖∇W₁‖ at depth {DEEPEST}, {init}", PRINTED_DEEPEST[init], *ours, verdict, why))
    return found


def plot(rows: list[Row]) -> list[Panel]:
    """Both laws, and the growth of wide Gaussian networks from the shallowest of these on."""
    depths = sorted({row.depth for row in rows})
    wide = gradient_growth(rows[0].batch, centered=False)
    start = interval(curve(rows, "gaussian")[depths[0]])[0]
    line = [start + wide * (depth - depths[0]) for depth in depths]
    more = [Series("wide Gaussian networks: ½ log((n−1)/(n−2)) a layer", depths, line)]
    title = f"Width and batch {rows[0].width}, identity"
    return [panel(rows, title, ("orthogonal", "gaussian"), more)]
