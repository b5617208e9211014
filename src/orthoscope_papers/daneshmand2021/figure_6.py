r"""Daneshmand, Joudaki & Bach (2021), Figure 6: the conjecture for activations, E L(Q) = O(1/√d).

Shown there: the mean over 1000 layers of $L(Q) = \|Q^\top Q - \mathbb{E}Q^\top Q\|_F$, with $Q \leftarrow BN(WF(Q))$,
against the width, for four activations whose curves cannot be told apart. That is a slip of the authors' notebook,
which plots the last activation, sin, under every label. Here each has its own curve. $Q^\top Q$ is divided by $d$, as
in the notebook: the rows of $Q$ have length 1, and without the division (20) would have to be $O(\sqrt d)$. The
notebook's "sigmoid" is $1 + \tanh$; here are both. Samples of sigmoid networks are nearly parallel, and in narrow ones
collapse for many layers: there the law of the width is not seen yet.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity, nonlinearity
from orthoscope.linalg import gram_factor
from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "With any of the usual activations the Gram matrix of a deep batch-norm network scatters around its mean by "
    "O(width^(-1/2)). The scatter does depend on the activation: that of sigmoid networks is less than half of that of "
    "tanh networks, while ReLU, tanh and sin are nearly alike."
)
KIND = "simulation"
RAISED = Nonlinearity("1 + tanh", lambda x: 1 + x.tanh())  # what the notebook calls sigmoid
ODD, POSITIVE = ("tanh", "sin"), ("sigmoid", RAISED.name)
ALIKE = ("relu", *ODD)
BLOCK = 25  # layers whose noise is drawn at once
NEAR = 0.07  # slopes of finitely many, not infinitely wide networks


@dataclass(frozen=True)
class Config:
    activations: tuple[str, ...] = ("sigmoid", RAISED.name, "relu", "tanh", "sin")
    widths: tuple[int, ...] = (16, 32, 64, 128, 256, 512)
    batch: int = 4
    layers: int = 1000
    seeds: tuple[int, ...] = tuple(range(6))


QUICK = Config(widths=(16, 128, 512), layers=100, seeds=tuple(range(4)))


class Row(NamedTuple):
    activation: str
    width: int
    seed: int
    overlap: float  # mean entry of QᵀQ/d off the diagonal
    deviation: float  # mean over the layers of ‖QᵀQ/d - E QᵀQ/d‖_F


def run(config: Config) -> list[Row]:
    """By symmetry E QᵀQ/d is 1/n on the diagonal and one number off it: the mean over all runs and late layers."""
    rows = []
    different = ~torch.eye(config.batch, dtype=torch.bool)
    for activation, width in product(config.activations, config.widths):
        grams = torch.stack(list(gram_matrices(activation, width, config)), 1)
        overlaps = grams[:, config.layers // 10 :, different].mean((1, 2))
        mean = torch.full((config.batch, config.batch), float(overlaps.mean()), dtype=torch.float64)
        mean.fill_diagonal_(1 / config.batch)
        deviations = torch.linalg.matrix_norm(grams - mean).mean(1)
        for seed, overlap, deviation in zip(config.seeds, overlaps.tolist(), deviations.tolist(), strict=True):
            rows.append(Row(activation, width, seed, overlap, deviation))
    return rows


def cells(config: Config) -> list[Config]:
    """One activation and width each: the mean Gram matrix is over all seeds, so these stay together."""
    return [
        Config((activation,), (width,), config.batch, config.layers, config.seeds)
        for activation, width in product(config.activations, config.widths)
    ]


def gram_matrices(activation: str, width: int, config: Config) -> Iterator[Float[Tensor, "seeds samples samples"]]:
    """QᵀQ/d after each layer, from standard Gaussian inputs.

    The rows of WF(Q) are independent and Gaussian with covariance F(Q)ᵀF(Q), up to a factor that BN takes away: only
    they are drawn, not W. The recorder of `orthoscope.chains` sees F(Q), from which ReLU does not let Q be found.
    """
    phi = RAISED if activation == RAISED.name else nonlinearity(activation)
    generators = [torch.Generator().manual_seed(seed) for seed in config.seeds]
    rows = torch.stack([_noise(1, width, config.batch, generator)[0] for generator in generators])
    for layer in range(config.layers):
        if layer % BLOCK == 0:
            noise = torch.stack([_noise(BLOCK, width, config.batch, generator) for generator in generators])
        outputs = phi(rows)
        rows = noise[:, layer % BLOCK] @ gram_factor(outputs.mT).mT
        rows = rows / rows.norm(dim=-1, keepdim=True)
        yield rows.mT @ rows / width


def _noise(layers: int, width: int, batch: int, generator: torch.Generator) -> Float[Tensor, "layers units samples"]:
    return torch.randn(layers, width, batch, generator=generator, dtype=torch.float64)


def slopes(rows: list[Row], activation: str, widths: Sequence[int]) -> list[float]:
    """Slope of the log-deviation against log width, seed by seed."""
    found = []
    for seed in sorted({row.seed for row in rows}):
        own = [row for row in rows if (row.activation, row.seed) == (activation, seed) and row.width in widths]
        line = statistics.linear_regression([math.log(r.width) for r in own], [math.log(r.deviation) for r in own])
        found.append(line.slope)
    return found


def law_widths(rows: list[Row], activation: str) -> list[int]:
    """All widths; of positive activations the two largest, as narrow networks of these collapse."""
    widths = sorted({row.width for row in rows})
    return widths[-2:] if activation in POSITIVE else widths


def follows_the_law(rows: list[Row], activation: str) -> bool:
    return abs(statistics.fmean(slopes(rows, activation, law_widths(rows, activation))) + 0.5) < NEAR


def level(rows: list[Row], activation: str, width: int) -> list[float]:
    return [row.deviation for row in rows if (row.activation, row.width) == (activation, width)]


def check(rows: list[Row]) -> dict[str, bool]:
    widths = sorted({row.width for row in rows})
    mean = {(row.activation, row.width): statistics.fmean(level(rows, row.activation, row.width)) for row in rows}
    odd = {name: interval([r.overlap for r in rows if r.activation == name], errors=4.0) for name in ODD}
    return {
        "slope near -1/2 for every activation, for positive ones between the two largest widths": all(
            follows_the_law(rows, name) for name in (*ALIKE, *POSITIVE)
        ),
        "ReLU, tanh and sin are alike, within a fifth at every width": all(
            max(mean[name, width] for name in ALIKE) < 1.2 * min(mean[name, width] for name in ALIKE)
            for width in widths
        ),
        "but sigmoid has less than half of tanh, at every width": all(
            2 * mean["sigmoid", width] < mean["tanh", width] for width in widths
        ),
        "what the notebook calls sigmoid has less than two thirds in the widest": (
            1.5 * mean[RAISED.name, widths[-1]] < mean["tanh", widths[-1]]
        ),
        "samples of odd activations are orthogonal on average, within four standard errors": all(
            low < 0 < high for _, low, high in odd.values()
        ),
        "those of the others are not": all(
            statistics.fmean(row.overlap for row in rows if row.activation == name) > 0.05
            for name in ("relu", *POSITIVE)
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    widest = max(row.width for row in rows)
    evidence = [
        Evidence(
            f"slope of log mean L(Q)/d against log width, {name}, widths {min(widths)} to {max(widths)}",
            -0.5,
            *interval(slopes(rows, name, widths)),
            "agrees" if follows_the_law(rows, name) else "differs",
            f"the conjecture is of an order: ± {NEAR} is near; with QᵀQ over d in (19)",
        )
        for name, widths in ((name, law_widths(rows, name)) for name in (*ALIKE, *POSITIVE))
    ]
    for name in POSITIVE:
        pairs = zip(level(rows, name, widest), level(rows, "tanh", widest), strict=True)
        ours, low, high = interval([first / second for first, second in pairs])
        evidence.append(
            Evidence(
                f"L(Q) of {name} over that of tanh, width {widest}; alike in the picture",
                1.0,
                ours,
                low,
                high,
                "corrected" if high < 1 else "agrees",
                "erratum daneshmand2021-figure-6: the notebook plots one activation under every label",
            )
        )
    return evidence


def plot(rows: list[Row]) -> list[Panel]:
    seeds = len({row.seed for row in rows})
    names = sorted({row.activation for row in rows})
    curves = [averaged(name, ((row.width, row.deviation) for row in rows if row.activation == name)) for name in names]
    panel = Panel(
        "Scatter of the Gram matrix",
        f"L(Q)/d over the layers, mean ± 2 s.e. of {seeds} runs",
        "width",
        curves,
        log_x=True,
        log_y=True,
    )
    return [panel]
