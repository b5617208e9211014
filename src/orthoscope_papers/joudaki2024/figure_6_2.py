r"""Joudaki (2024), Figure 6.2: gradients explode with depth for a batch with repeated samples, and else do not.

Orthogonal weights, batch norm without centering, identity; "by repeating samples in a batch of size 10" (section C.7).
The width $d$ is not said; here it is the batch size, as the theory of the chapter wants. A batch with $m$ different
images goes through the network as these $m$ alone, so that repeating is having fewer samples than units. How fast
gradients then grow, the thesis does not say: `interpolated_growth` is right at both ends and close between them.
Networks end at 200 layers: from about 300 on rounding, which explodes too, parts the copies of an image or their
gradients, and the curves bend one way or the other.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from orthoscope.chains import Chain
from orthoscope.theory import gradient_growth
from orthoscope_papers.evidence import Evidence, Verdict
from orthoscope_papers.joudaki2024.first_gradients import (
    GradientConfig,
    Row,
    gradients_behind,
    image_starts,
    late_growth,
    panel,
    read,
)
from orthoscope_papers.panels import Panel

__all__ = ["CLAIM", "KIND", "QUICK", "Config", "Row", "cells", "check", "compare", "plot", "run"]

CLAIM = (
    "With orthogonal weights and batch norm, as many samples as units, gradients of a batch of different samples stay "
    "bounded in depth; those of a batch with repeated samples explode, the faster the fewer are different."
)
KIND = "simulation"
DATA = ("cifar10",)
BOUNDED = 0.003  # growth a layer: a factor e in 300 layers, the rest of the transient that images begin with


@dataclass(frozen=True)
class Config(GradientConfig):
    width: int = 10
    batch: int = 10
    different: tuple[int, ...] = (10, 9, 7, 5, 3)
    depths: tuple[int, ...] = (5, 10, 20, 50, 100, 150, 200)
    seeds: tuple[int, ...] = tuple(range(30))  # the thesis: 10


QUICK = Config(data="digits", different=(10, 8, 5), depths=(5, 10, 20, 100, 150, 200), seeds=tuple(range(20)))


def cells(config: Config) -> list[Config]:
    """One kind of batch each."""
    return [replace(config, different=(count,)) for count in config.different]


def run(config: Config) -> list[Row]:
    """Every kind of batch: the first so many images of each batch, again and again."""
    images = image_starts(config)
    chain = Chain(config.width, init="orthogonal", norm="batch_uncentered")
    rows = []
    for count in config.different:
        repeated = [index % count for index in range(config.batch)]
        # Read in law, copies differ by rounding: here they are copied again, to the last bit.
        hidden = read(images[:, repeated], chain, config.seeds)[:, repeated]
        rows += gradients_behind(label(count), chain, config, hidden)
    return rows


def label(different: int) -> str:
    return f"{different} different images"


def interpolated_growth(different: int, width: int) -> float:
    r"""$\frac12\log\frac{m-1}{m-2} - \frac12\log\frac{d-1}{d-2}$ a layer, for $m$ different samples and $d$ units.

    The first term is `gradient_growth`, which wide networks have whatever their weights; the second makes it 0 at
    $m = d$, where the gradient is conserved. Between, it is an observation and not a theorem. Both are means of
    squares, which a few networks dominate when $m$ is 3 or 4: typical ones grow less.
    """
    return gradient_growth(different, centered=False) - gradient_growth(width, centered=False)


def check(rows: list[Row]) -> dict[str, bool]:
    """Bounded or not, by the number of different images."""
    counts = sorted({int(row.network.split()[0]) for row in rows}, reverse=True)
    growth = {count: late_growth(rows, label(count), 3.0) for count in counts}
    fewer = [count for count in counts if count < rows[0].batch]
    return {
        f"all different: the log-gradient grows by less than {BOUNDED} a layer": growth[rows[0].batch][2] < BOUNDED,
        "some repeated: it grows, zero is more than 3 standard errors away": all(growth[m][1] > 0 for m in fewer),
        "the fewer the faster": all(growth[more][0] < growth[less][0] for more, less in pairwise(counts)),
        "with 5 or more different by what the interpolation says, to a factor 2": all(
            0.5 < growth[m][0] / interpolated_growth(m, rows[0].width) < 2 for m in fewer if m >= 5
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """Growth per layer; the thesis shows a picture."""
    found = []
    for count in sorted({int(row.network.split()[0]) for row in rows}, reverse=True):
        mean, low, high = late_growth(rows, label(count))
        quantity = f"growth of log ‖∇W₁‖ a layer, {count} of {rows[0].batch} different"
        if count == rows[0].batch:
            verdict: Verdict = "agrees" if abs(mean) < BOUNDED else "differs"
            found.append(Evidence(quantity, 0.0, mean, low, high, verdict, "bounded, as shown"))
        else:
            why = f"explodes, as shown; ½ log((m−1)/(m−2)) − ½ log((d−1)/(d−2)) = {_rounded(count, rows[0].width)}"
            found.append(Evidence(quantity, None, mean, low, high, "agrees" if low > 0 else "differs", why))
    return found


def _rounded(different: int, width: int) -> str:
    growth = interpolated_growth(different, width)
    return f"{growth:.4f}" if math.isfinite(growth) else "∞"


def plot(rows: list[Row]) -> list[Panel]:
    """One panel, a line for each number of different images."""
    networks = list(dict.fromkeys(row.network for row in rows))
    return [panel(rows, f"Width {rows[0].width}, batch {rows[0].batch}, orthogonal weights", networks)]
