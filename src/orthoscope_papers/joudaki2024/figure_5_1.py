r"""Joudaki (2024), figure 5.1: overlaps go to the fixed point of the kernel map, for one custom activation a case.

The thesis does not say which activations these are; here they are sums of Hermite polynomials, named after their
kernel maps, one in each of the four cases of Theorem 5.11, the last being the counterexample to the printed rate of
case 4. The theorem's rates in cases 1 and 4 are false as printed (errata joudaki2024-theorem-5.11-case-1 and -case-4).
"""

from itertools import product

from orthoscope_papers.evidence import Evidence
from orthoscope_papers.joudaki2024.overlap_chains import (
    CUSTOM,
    LAYERS,
    Config,
    Row,
    deviation,
    drawn,
    evidence,
    excess,
    kernel_of,
    names,
    printed_bound,
    printed_rate,
    simulated,
)
from orthoscope_papers.panels import Panel

__all__ = ["CLAIM", "KIND", "QUICK", "Config", "Row", "check", "compare", "plot", "run"]

CLAIM = (
    "Overlaps of two samples tend to the one attracting fixed point of the kernel map, in all four cases, at least at "
    "the corrected rates: 1/(2 - κ′(0)) in case 1, and with 1/(2 - κ′(ρ*)) in place of (1-ρ*)/(2 - κ′(ρ*)) in case 4."
)
KIND = "simulation"
QUICK = Config(width=8000, starts=(0.5,), seeds=tuple(range(6)))
CASES = dict(zip(CUSTOM, (1, 2, 3, 4), strict=True))
TOLERANCE = 0.02  # of an overlap, for what is of order 1/width


def run(config: Config) -> list[Row]:
    return simulated(list(CUSTOM), config)


def check(rows: list[Row]) -> dict[str, bool]:
    starts = sorted({row.start for row in rows})
    kernels = {name: kernel_of(name) for name in names(rows)}
    places = list(product(kernels, starts, LAYERS))
    first = next(name for name, case in CASES.items() if case == 1)
    return {
        "the four activations are in the four cases": [kernel.case for kernel in kernels.values()] == [1, 2, 3, 4],
        "mean overlaps follow the kernel map at every layer, within 4 standard errors and 0.02": all(
            deviation(rows, *place) < TOLERANCE for place in places
        ),
        "and stay within the corrected bounds": all(
            excess(rows, name, start, layer, float(kernels[name].bound(start, layer)) + TOLERANCE) < 4
            for name, start, layer in places
        ),
        "in case 1 they leave the printed bound, by more than 4 standard errors": any(
            excess(rows, first, start, layer, printed_bound(kernels[first], 1, start, layer)) > 4
            for start, layer in product(starts, LAYERS[1:])
        ),
        "in case 4 the printed factor is smaller than the corrected one, which it must not be": (
            printed_rate(kernels["(2 + 3ρ²)/5"], 4) < kernels["(2 + 3ρ²)/5"].rate
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    return evidence(rows, CASES)


def plot(rows: list[Row]) -> list[Panel]:
    return drawn(rows, CASES)
