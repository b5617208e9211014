r"""Li & Papyan (2023), Theorem 3.3: the unconstrained Jacobians model ends in equal, aligned Jacobians of rank one.

The matrices themselves are trained, from random starts, by L-BFGS in float64, on one example of length 1, and what they
end in is put beside the exact optimum (`theory.unconstrained_jacobians_optimum`): every $J_i = s\,uu^\top$ with
$u = \Delta x$, $\|w\|^2 = s(1+s)$. The paper shows that such an optimum exists; every global one is such. The singular
values are *equal*: they are not the $1/i$ of RA4, which this model does not explain.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.theory import unconstrained_jacobians_optimum
from orthoscope.training import train
from orthoscope_papers.evidence import Evidence
from orthoscope_papers.panels import Panel, Series

CLAIM = (
    "When only the Jacobians of residual blocks are trained, with weight decay, gradient descent from a random start "
    "ends in Jacobians of rank one that are equal and aligned with the input, at the exact optimum."
)
KIND = "simulation"
ROUNDS, STEPS_A_ROUND = 4, 500
RIGHT = 1e-6
# D = 6, L = 5, λ = 0.02: singular value, ‖w‖ and objective.
KNOWN_CASE, KNOWN = (5, 6, 0.02), (0.48210, 0.84530, 0.021133)


@dataclass(frozen=True)
class Config:
    cases: tuple[tuple[int, int, float], ...] = (  # depth L, width D, decay λ
        (1, 4, 0.02),
        (2, 3, 0.05),
        KNOWN_CASE,
        (3, 20, 0.1),
        (8, 12, 0.01),
        (12, 8, 0.005),
        (20, 10, 0.002),
        (5, 30, 0.3),
    )
    weight_std: float = 0.1
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)


QUICK = Config(cases=(KNOWN_CASE, (3, 20, 0.1), (8, 12, 0.01)), seeds=(0, 1))


class UnconstrainedJacobians(nn.Module):
    r"""$z = w^\top \prod_i (I + J_i)\,\Delta x$ for every row $\Delta x$, in float64.

    The theorem concerns the objective $\log(1 + e^{-yz}) + \tfrac\lambda2(\sum_i\|J_i\|_F^2 + \|w\|^2)$ of one example;
    `energy` is the factor of $\tfrac\lambda2$. Parameters are Gaussian with standard deviation `weight_std`.
    """

    def __init__(
        self,
        *,
        depth: int,
        width: int,
        weight_std: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        drawn = weight_std * torch.randn(depth * width + 1, width, generator=generator, dtype=torch.float64)
        self.jacobians = nn.Parameter(drawn[:-1].reshape(depth, width, width).clone())
        self.head = nn.Parameter(drawn[-1].clone())

    def forward(self, inputs: Float[Tensor, "samples units"]) -> Float[Tensor, "samples"]:
        """$z$ for every row."""
        hidden = inputs.double()
        for jacobian in self.jacobians:
            hidden = hidden + hidden @ jacobian.mT
        return hidden @ self.head

    def energy(self) -> Float[Tensor, ""]:
        r"""$\sum_i\|J_i\|_F^2 + \|w\|^2$."""
        return self.jacobians.square().sum() + self.head.square().sum()


class Row(NamedTuple):
    depth: int
    width: int
    decay: float
    seed: int
    block: int
    first: float  # the largest singular value
    second: float
    aligned: float  # the smaller of |u·Δx| and |v·Δx|: 1 is aligned
    head: float  # ‖w‖
    objective: float
    best: float  # singular value at the exact optimum
    best_objective: float


def cells(config: Config) -> list[Config]:
    """One case each."""
    return [replace(config, cases=(case,)) for case in config.cases]


def run(config: Config) -> list[Row]:
    """Every case from every seed."""
    rows = []
    for (depth, width, decay), seed in product(config.cases, config.seeds):
        rows += _solved(depth, width, decay, seed, config.weight_std)
    return rows


def _solved(depth: int, width: int, decay: float, seed: int, weight_std: float) -> list[Row]:
    generator = torch.Generator().manual_seed(seed)
    example = torch.randn(1, width, generator=generator, dtype=torch.float64)
    example /= torch.linalg.vector_norm(example)
    model = descended(example, depth, decay, weight_std, generator)
    with torch.no_grad():
        objective = float(_objective(model, decay, model(example), torch.ones(1, dtype=torch.float64)))
        left, values, right = torch.linalg.svd(model.jacobians)
        inner = torch.minimum((left[:, :, 0] @ example[0]).abs(), (right[:, 0] @ example[0]).abs())
        head = float(torch.linalg.vector_norm(model.head))
    exact = unconstrained_jacobians_optimum(depth, decay)
    second = values[:, 1] if width > 1 else torch.zeros(depth)
    return [
        Row(depth, width, decay, seed, block + 1, *numbers, head, objective, exact.singular_value, exact.objective)
        for block, numbers in enumerate(zip(values[:, 0].tolist(), second.tolist(), inner.tolist(), strict=True))
    ]


def descended(
    example: Tensor, depth: int, decay: float, weight_std: float, generator: torch.Generator
) -> UnconstrainedJacobians:
    """The model where L-BFGS ends, from a random start."""
    model = UnconstrainedJacobians(depth=depth, width=example.shape[1], weight_std=weight_std, generator=generator)
    optimizer = torch.optim.LBFGS(
        model.parameters(),
        max_iter=STEPS_A_ROUND,
        tolerance_grad=1e-12,
        tolerance_change=0.0,
        history_size=20,
        line_search_fn="strong_wolfe",
    )
    label = torch.ones(1, dtype=torch.float64)

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        return _objective(model, decay, logits, labels)

    train(model, lambda: [(example, label)], optimizer, steps=ROUNDS, loss=loss)
    return model


def _objective(model: UnconstrainedJacobians, decay: float, logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.softplus(-labels * logits).mean() + decay / 2 * model.energy()


def check(rows: list[Row]) -> dict[str, bool]:
    """The theorem, every block of every run."""
    return {
        "the objective is that of the exact optimum, to 1e-6": all(
            abs(row.objective - row.best_objective) < RIGHT for row in rows
        ),
        "singular values of all blocks are equal, and the exact one, to 1e-6": all(
            abs(row.first - row.best) < RIGHT for row in rows
        ),
        "the second singular value is less than 1e-6: rank one": all(row.second < RIGHT for row in rows),
        "left and right singular vectors are the input, to 1e-6": all(row.aligned > 1 - RIGHT for row in rows),
        "the head has length sqrt(s(1+s)), to 1e-6": all(
            abs(row.head - math.sqrt(row.best * (1 + row.best))) < RIGHT for row in rows
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    """The known case, and the worst of all."""
    known = [row for row in rows if (row.depth, row.width, row.decay) == KNOWN_CASE]
    found = []
    for name, printed, values in (
        ("singular value, L = 5, D = 6, λ = 0.02", KNOWN[0], [row.first for row in known]),
        ("length of the head, same case", KNOWN[1], [row.head for row in known]),
        ("objective, same case", KNOWN[2], [row.objective for row in known]),
    ):
        if values:
            near = all(abs(value - printed) < 1e-5 for value in values)
            found.append(_evidence(name, printed, values, near))
    distances = [abs(row.first - row.best) for row in rows]
    name = "distance of a singular value from the exact one, over all cases"
    return [*found, _evidence(name, 0.0, distances, max(distances) < RIGHT)]


def _evidence(name: str, printed: float, values: Sequence[float], near: bool) -> Evidence:
    mean, low, high = sum(values) / len(values), min(values), max(values)
    if near:
        return Evidence(name, printed, mean, low, high, "agrees")
    return Evidence(name, printed, mean, low, high, "differs", "descent has not reached the optimum")


def plot(rows: list[Row]) -> list[Panel]:
    """Singular values over blocks, every case, beside the exact ones."""
    cases = list(dict.fromkeys((row.depth, row.width, row.decay) for row in rows))
    series: list[Series] = []
    for case in cases:
        own = [row for row in rows if (row.depth, row.width, row.decay) == case]
        name = f"L = {case[0]}, D = {case[1]}, λ = {case[2]:g}"
        series.append(_means(name, own))
    exact = [Series("exact", [1, case[0]], [_best(rows, case)] * 2, theory=True) for case in cases]
    highest = 1.1 * max(row.first for row in rows)
    measure = f"largest singular value, mean of {len({row.seed for row in rows})} starts"
    return [Panel("Equal singular values", measure, "block", [*series, *exact], y_range=(0, highest))]


def _means(name: str, own: Sequence[Row]) -> Series:
    blocks = sorted({row.block for row in own})
    values = [[row.first for row in own if row.block == block] for block in blocks]
    return Series(name, blocks, [sum(one) / len(one) for one in values], marks=True)


def _best(rows: Sequence[Row], case: tuple[int, int, float]) -> float:
    return next(row.best for row in rows if (row.depth, row.width, row.decay) == case)
