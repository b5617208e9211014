r"""Joudaki (2024), figure 5.2: the same for activations in use, each in its true case.

The thesis has tanh, ReLU, exp and GELU as cases 1 to 4. ReLU is in case 3: $\kappa'(1) = 1$ exactly, as for every
positively homogeneous activation, and $1 - \rho_\ell \sim 9\pi^2/(2\ell^2)$ (erratum joudaki2024-figure-5.2); a
Hermite series cut at 25 terms has 0.948, see table_5_2. The sigmoid is added, which is in case 2.
"""

import math
import statistics
from itertools import product

from orthoscope_papers.evidence import Evidence
from orthoscope_papers.joudaki2024.overlap_chains import (
    LAYERS,
    Config,
    Row,
    deviation,
    drawn,
    evidence,
    excess,
    kernel_of,
    mean_field,
    names,
    overlaps,
    printed_bound,
    simulated,
)
from orthoscope_papers.panels import Panel

__all__ = ["CLAIM", "KIND", "QUICK", "Config", "Row", "check", "compare", "plot", "run"]

CLAIM = (
    "Overlaps through tanh go to 0 (case 1), through the sigmoid to 1 geometrically (case 2), through ReLU and exp to "
    "1 slowly (case 3: as 1/ℓ² and 1/ℓ), through GELU to 0.760 (case 4)."
)
KIND = "simulation"
QUICK = Config(width=8000, starts=(0.5,), seeds=tuple(range(6)))
TRUE = {"tanh": 1, "sigmoid": 2, "relu": 3, "exp": 3, "gelu": 4}
PRINTED: dict[str, int | None] = {"tanh": 1, "sigmoid": None, "relu": 2, "exp": 3, "gelu": 4}
HALF = LAYERS[-1] // 2
SPREAD = {"relu": 5.0, "exp": 3 * math.exp(4) - 1}  # 3Eφ′⁴/(Eφ′²)² - 1, see overlap_chains
TOLERANCE = 0.03  # of an overlap, for what is of order 1/width; exp has heavy tails


def run(config: Config) -> list[Row]:
    return simulated(list(TRUE), config)


def fall(far: float, near: float) -> float:
    """Exponent p of 1 - ρ ~ ℓ^-p between half of the layers, where the overlap is `far`, and the last."""
    return math.log2((1 - far) / (1 - near))


def measured_fall(rows: list[Row], activation: str, start: float) -> float:
    """The mean over seeds of every network's own exponent."""
    ends = (overlaps(rows, activation, start, layer) for layer in (HALF, LAYERS[-1]))
    return statistics.fmean(fall(far, near) for far, near in zip(*ends, strict=True))


def expected_fall(activation: str, start: float, width: int) -> float:
    r"""That of the mean field, and what finite width adds: $s/(2d)$ a layer of the logarithm, $s$ the `SPREAD`."""
    path = mean_field(activation, start)
    return fall(path[HALF], path[-1]) + HALF * SPREAD[activation] / (2 * width * math.log(2))


def check(rows: list[Row]) -> dict[str, bool]:
    starts = sorted({row.start for row in rows})
    kernels = {name: kernel_of(name) for name in names(rows)}
    places = list(product(kernels, starts, LAYERS))
    return {
        "every activation is in its true case": {name: kernel.case for name, kernel in kernels.items()} == TRUE,
        "mean overlaps follow the kernel map at every layer, within 4 standard errors and 0.03": all(
            deviation(rows, *place) < TOLERANCE for place in places
        ),
        "and stay within the corrected bounds": all(
            excess(rows, name, start, layer, float(kernels[name].bound(start, layer)) + TOLERANCE) < 4
            for name, start, layer in places
        ),
        "tanh leaves the printed bound of case 1, by more than 4 standard errors": any(
            excess(rows, "tanh", start, layer, printed_bound(kernels["tanh"], 1, start, layer)) > 4
            for start, layer in product(starts, LAYERS[1:])
        ),
        "ReLU and exp approach 1 by powers of the depth, as the mean field and width say within 0.3": all(
            abs(measured_fall(rows, name, start) - expected_fall(name, start, rows[0].width)) < 0.3
            for name, start in product(("relu", "exp"), starts)
        ),
        "the sigmoid is at 1 after a few layers": all(
            min(overlaps(rows, "sigmoid", start, 8)) > 0.9999 for start in starts
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    return evidence(rows, PRINTED)


def plot(rows: list[Row]) -> list[Panel]:
    return drawn(rows, {name: PRINTED[name] or case for name, case in TRUE.items()})
