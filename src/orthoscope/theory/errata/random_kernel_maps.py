"""Random kernel maps with finitely many terms, for the errata of chapter 5 of joudaki2024."""

from dataclasses import dataclass

import torch
from scipy.optimize import brentq

from orthoscope.theory.kernel.convergence import Landmarks

ROUNDING = 1e-12
TERMS = 8


@dataclass(frozen=True)
class Polynomial:
    r"""$\kappa(\rho) = \sum_k s_k \rho^k$ with $s_k = c_k^2 \ge 0$ and $\kappa(1) = 1$."""

    squares: tuple[float, ...]

    def __call__(self, overlap: float) -> float:
        total = 0.0
        for square in reversed(self.squares):
            total = total * overlap + square
        return total

    def derivative(self, overlap: float) -> float:
        return sum(k * square * overlap ** (k - 1) for k, square in enumerate(self.squares) if k)

    def after(self, overlap: float, depth: int) -> float:
        for _ in range(depth):
            overlap = self(overlap)
        return overlap

    def landmarks(self) -> Landmarks:
        """In case 4 and clear of its border, where κ(ρ) - ρ has one root, below 1: κ'(1) > 1.05, κ'' < TERMS²."""
        fixed = float(brentq(lambda overlap: self(overlap) - overlap, 0.0, 1 - 0.05 / TERMS**2, xtol=ROUNDING / 100))
        return Landmarks(self(0.0), self.derivative(0.0), self.derivative(1.0), fixed, self.derivative(fixed))


def draw(generator: torch.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(torch.rand((), generator=generator, dtype=torch.float64))


def random_map(generator: torch.Generator, centred: bool = False) -> Polynomial:
    """Exponential weights times a random power: all terms alike, or the first ones only."""
    fall = draw(generator, 0.2, 1.0)
    squares = torch.empty(TERMS, dtype=torch.float64).exponential_(generator=generator) * fall ** torch.arange(TERMS)
    if centred:
        squares[0] = 0.0
    return Polynomial(tuple((squares / squares.sum()).tolist()))


def random_repelling_map(generator: torch.Generator) -> Polynomial:
    """A map of case 4, clear of its border: κ(0) > 0 and κ'(1) > 1.05."""
    while True:
        drawn = random_map(generator)
        if drawn.squares[0] > 0.01 and drawn.derivative(1.0) > 1.05:
            return drawn


def potential(overlap: float) -> float:
    r"""$|\rho|/(1 - |\rho|)$."""
    return abs(overlap) / (1 - abs(overlap))
