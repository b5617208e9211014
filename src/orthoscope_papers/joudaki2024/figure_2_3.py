r"""Joudaki (2024), Figure 2.3: for which batch sizes n and widths d assumption A1 holds.

Shown there: a pixel (n, d) is black if $\sigma_n(H_k)$ fell below a tenth of $\sigma_n(H_0)$ in one of 1000 layers of
one of 10 runs, and the curve $d = (n-28)^{1.8}$, to say that A1 holds for $d = \Omega(n^2)$. Here $H_0$ is Gaussian,
scaled to norm 1 as all $H_k$ are (the thesis does not say which input it takes), on a coarser and smaller grid, with
the share of runs for a pixel. Theory explains the square: the noise of the Gram matrix is isotropic, so its eigenvalues
are spread by $\pm 2\sqrt{\mathbb{E}V^2/n}$ around $1/n$ (a semicircle), which reaches 0 at $4n\,\mathbb{E}V^2 = 1$:
$d \approx n^2$.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains import Chain, simulate
from orthoscope.theory.chain.batch_norm import stationary_gap_squared
from orthoscope_papers.evidence import Evidence, Verdict
from orthoscope_papers.panels import HeatMap, Math, Panel, Series

CLAIM = (
    "The samples of a batch-norm network stay linearly independent through 1000 layers if the width is Ω(batch²): the "
    "smallest singular value never falls below a tenth of what it was in the input."
)
KIND = "simulation"
PART = 0.1  # of the smallest singular value of the input
BEGIN, POWER = 28, 1.8  # of the curve that the thesis draws, which says nothing of fewer samples


@dataclass(frozen=True)
class Config:
    batches: tuple[int, ...] = (4, 8, 12, 16, 24)
    widths: tuple[int, ...] = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
    depth: int = 1000
    seeds: tuple[int, ...] = tuple(range(10))


# So many layers and seeds that the checks hold for eight of eight other sets of seeds; at depth 100 for none of them.
QUICK = Config(
    batches=(6, 12, 24), widths=(12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512), depth=300, seeds=tuple(range(8))
)
FULL = Config(batches=(*Config.batches, 32, 48), widths=(*Config.widths, 768, 1024, 1536, 2048))


class Row(NamedTuple):
    batch: int
    width: int
    seed: int
    of_input: float  # smallest singular value, norm 1
    of_layers: float  # the smallest of all layers


def run(config: Config) -> list[Row]:
    rows = []
    for batch, width in pixels(config):
        inputs = torch.stack([_input(batch, width, seed) for seed in config.seeds])
        recording = simulate(
            inputs,
            Chain(width, norm="batch_uncentered"),
            config.depth,
            seeds=config.seeds,
            record={"energy": weakest_energy},
        )
        values = recording.values["energy"].clamp_min(0).sqrt()
        ends = zip(config.seeds, values[:, 0].tolist(), values[:, 1:].amin(1).tolist(), strict=True)
        rows += [Row(batch, width, *each) for each in ends]
    return rows


def cells(config: Config) -> list[Config]:
    """One pixel each."""
    return [replace(config, batches=(batch,), widths=(width,)) for batch, width in pixels(config)]


def pixels(config: Config) -> list[tuple[int, int]]:
    """No more samples than units, and one unit more at least: a square input has hardly a smallest singular value."""
    return [(batch, width) for batch, width in product(config.batches, config.widths) if batch < width]


def _input(batch: int, width: int, seed: int) -> Float[Tensor, "samples units"]:
    samples = torch.randn(batch, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return samples / samples.norm()


def weakest_energy(hidden: Float[Tensor, "*seeds samples units"]) -> Float[Tensor, "*seeds"]:
    r"""$\sigma_n^2/\|H\|_F^2$, by the eigenvalues of the Gram: good to 1e-16, and A1 asks for 1e-6 and more."""
    gram = hidden @ hidden.mT
    return torch.linalg.eigvalsh(gram)[..., 0] / gram.diagonal(dim1=-2, dim2=-1).sum(-1)


def holding(rows: list[Row], batch: int, width: int) -> float | None:
    """Share of runs in which A1 holds; None for a pixel without runs."""
    own = [row.of_layers >= PART * row.of_input for row in rows if (row.batch, row.width) == (batch, width)]
    return sum(own) / len(own) if own else None


def widths_needed(rows: list[Row]) -> dict[int, int]:
    """For every batch, the smallest width from which on A1 holds in all runs; batches without one are left out."""
    needed = {}
    widths = sorted({row.width for row in rows}, reverse=True)
    for batch in sorted({row.batch for row in rows}):
        for width in widths:
            if holding(rows, batch, width) != 1:
                break
            needed[batch] = width
    return needed


def width_of_the_edge(batch: int) -> float:
    r"""Width at which the semicircle of the stationary Gram reaches 0: $4n\,\mathbb{E}V^2 = 1$."""
    return 4 * batch * batch * stationary_gap_squared(batch, batch)


def exponent(rows: list[Row]) -> float:
    """Of the batch in the width needed, by least squares on logarithms."""
    return _exponent(widths_needed(rows))


def exponents_of_the_grid(rows: list[Row]) -> tuple[float, float]:
    """The least and the largest exponent, if what is needed may be as little as the next smaller width of the grid."""
    needed, tried = widths_needed(rows), sorted({row.width for row in rows})
    below = {batch: max((w for w in tried if w < width), default=width) for batch, width in needed.items()}
    middle = statistics.fmean(math.log(batch) for batch in needed)
    many = {batch for batch in needed if math.log(batch) > middle}
    least = {batch: (below if batch in many else needed)[batch] for batch in needed}
    most = {batch: (needed if batch in many else below)[batch] for batch in needed}
    return _exponent(least), _exponent(most)


def _exponent(widths: Mapping[int, int | float]) -> float:
    x, y = [math.log(batch) for batch in widths], [math.log(width) for width in widths.values()]
    return statistics.linear_regression(x, y).slope


def check(rows: list[Row]) -> dict[str, bool]:
    needed, batches = widths_needed(rows), sorted({row.batch for row in rows})
    narrow = {batch: min(row.width for row in rows if row.batch == batch) for batch in batches}
    return {
        "A1 fails in the narrowest network of every batch, in some run": all(
            (holding(rows, batch, narrow[batch]) or 0) < 1 for batch in batches
        ),
        "and holds in all runs once the network is wide enough": list(needed) == batches,
        "the width needed grows faster than the batch, and at most about as its square: exponent 1.25 to 2.25": (
            1.25 < exponent(rows) < 2.25
        ),
        "it is within a factor 3 of where theory has the edge of the spectrum at 0": all(
            1 / 3 < width / width_of_the_edge(batch) < 3 for batch, width in needed.items()
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The square; and the curve that is drawn beside it, where there are so many samples."""
    slope, (low, high) = exponent(rows), exponents_of_the_grid(rows)
    theory = _exponent({batch: width_of_the_edge(batch) for batch in widths_needed(rows)})
    why = (
        "the interval is what the grid of widths, in steps of about √2, leaves open; 2 is for many samples: of so many "
        f"the edge of the spectrum has {theory:.2f}, by which is judged; what falls beyond the edge, more with few "
        "samples, is not in it"
    )
    square: Verdict = "agrees" if low <= theory <= high else "differs"
    found = [Evidence("exponent of the batch in the width needed", 2.0, slope, low, high, square, why)]
    for batch, width in widths_needed(rows).items():
        if batch > BEGIN:
            drawn, below = float(batch - BEGIN) ** POWER, max(row.width for row in rows if row.width < width)
            verdict: Verdict = "agrees" if below <= drawn <= width else "differs"
            why = (
                "the thesis does not say which input it takes; from Gaussian inputs theory has the edge of the "
                f"spectrum at {width_of_the_edge(batch):.0f}; the interval is a step of the grid"
            )
            ends = float(width), float(below), float(width)
            found.append(Evidence(f"width needed by {batch} samples", drawn, *ends, verdict, why))
    return found


def plot(rows: list[Row]) -> list[Panel | HeatMap]:
    batches, widths = sorted({row.batch for row in rows}), sorted({row.width for row in rows})
    seeds, needed = len({row.seed for row in rows}), widths_needed(rows)
    fine = [batches[0] * (batches[-1] / batches[0]) ** (step / 40) for step in range(41)]
    return [
        HeatMap(
            "Where A1 holds",
            f"share of {seeds} runs",
            "samples n",
            "width d",
            batches,
            widths,
            [[holding(rows, batch, width) for batch in batches] for width in widths],
            0.0,
            1.0,
        ),
        Panel(
            "Width from which on A1 holds",
            f"in all of {seeds} runs",
            "samples n",
            [
                Series("measured", list(needed), list(needed.values()), marks=True),
                Series(
                    Math("curve of the thesis, $(n - 28)^{1.8}$"), fine, [max(0.0, n - BEGIN) ** POWER for n in fine]
                ),
                Series(
                    "edge of the spectrum at 0, theory",
                    batches,
                    [width_of_the_edge(batch) for batch in batches],
                    theory=True,
                ),
            ],
            y_range=(widths[0], 2 * max(widths[-1], batches[-1] ** 2)),
            log_x=True,
            log_y=True,
        ),
    ]
