"""Joudaki (2024), chapter 5: convergence of kernel maps; random cases are polynomials with few terms."""

from dataclasses import dataclass

import torch
from scipy.optimize import brentq

from orthoscope.theory.kernel.convergence import Landmarks, contraction_rate, convergence_case, normalized_rate
from orthoscope.theory.kernel.kernel_map import kernel_map, relu_overlap_map
from orthoscope_papers.errata import Erratum, Statement

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


def random_map(generator: torch.Generator, centered: bool = False) -> Polynomial:
    """Exponential weights times a random power: all terms alike, or the first ones only."""
    fall = draw(generator, 0.2, 1.0)
    squares = torch.empty(TERMS, dtype=torch.float64).exponential_(generator=generator) * fall ** torch.arange(TERMS)
    if centered:
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


# Theorem 5.11, case 1.

_START = 0.5


def _tanh_layer(rate: float) -> Statement:
    return Statement(potential(kernel_map("tanh")(_START)), "<=", rate * potential(_START), ROUNDING)


def _case_one_printed() -> Statement:
    return _tanh_layer(1 / kernel_map("tanh").slope_at_one)


def _case_one_corrected() -> Statement:
    return _tanh_layer(kernel_map("tanh").rate)


def _case_one_random(generator: torch.Generator) -> Statement:
    kappa, start = random_map(generator, centered=True), draw(generator, -1.0, 1.0)
    depth = 1 + int(draw(generator, 0.0, 20.0))
    bound = potential(start) / (2 - kappa.squares[1]) ** depth
    return Statement(potential(kappa.after(start, depth)), "<=", bound, ROUNDING)


# Theorem 5.11, case 4: ρ* = 2/3 and κ'(ρ*) = 0.8; started near 1, where the overlap is slow to leave.

_QUADRATIC = Polynomial((0.4, 0.0, 0.6))
_NEAR_ONE, _MANY_LAYERS = 0.9999, 80


def _distance(kappa: Polynomial, rate: float, start: float, depth: int) -> Statement:
    fixed = kappa.landmarks().fixed_point
    bound = abs(start - fixed) / (1 - abs(start)) * rate**depth
    return Statement(abs(kappa.after(start, depth) - fixed), "<=", bound, ROUNDING)


def _case_four_printed() -> Statement:
    marks = _QUADRATIC.landmarks()
    third = (1 - marks.fixed_point) / (2 - marks.slope_at_fixed_point)
    printed = max(1 - marks.at_zero, marks.slope_at_fixed_point, third)
    return _distance(_QUADRATIC, printed, _NEAR_ONE, _MANY_LAYERS)


def _case_four_corrected() -> Statement:
    return _distance(_QUADRATIC, contraction_rate(_QUADRATIC.landmarks()), _NEAR_ONE, _MANY_LAYERS)


def _case_four_random(generator: torch.Generator) -> Statement:
    kappa = random_repelling_map(generator)
    start, depth = draw(generator, -1.0, 1.0), 1 + int(draw(generator, 0.0, 40.0))
    return _distance(kappa, contraction_rate(kappa.landmarks()), start, depth)


# Theorem 5.15: ReLU before normalization has κ(ρ) = E relu(X) relu(Y), so κ(1) = 1/2.

_RELU_AT_ONE, _RELU_SLOPE_AT_ONE = 0.5, 0.5


def _post_layer_norm(rate: float) -> Statement:
    after = kernel_map("relu", norm="layer", order="activation-norm")(_START)
    return Statement(potential(after), "<=", rate * potential(_START), ROUNDING)


def _normalized_printed() -> Statement:
    at_zero = kernel_map("relu").at_zero * _RELU_AT_ONE
    return _post_layer_norm((_RELU_AT_ONE - at_zero) / _RELU_SLOPE_AT_ONE)


def _normalized_corrected() -> Statement:
    relu = kernel_map("relu")
    slope_at_zero = relu.slope_at_zero * _RELU_AT_ONE
    return _post_layer_norm(normalized_rate(relu.at_zero * _RELU_AT_ONE, _RELU_AT_ONE, slope_at_zero))


def _normalized_random(generator: torch.Generator) -> Statement:
    """Layer normalization after the activation: κ becomes (κ - κ(0))/(κ(1) - κ(0))."""
    kappa, start = random_map(generator), draw(generator, -1.0, 1.0)
    after = (kappa(start) - kappa(0.0)) / (kappa(1.0) - kappa(0.0))
    rate = normalized_rate(kappa(0.0), kappa(1.0), kappa.derivative(0.0))
    return Statement(potential(after), "<=", rate * potential(start), ROUNDING)


# Figure 5.2: the case of ReLU.


def _relu_case() -> float:
    relu = kernel_map("relu")
    return float(convergence_case(relu.at_zero, relu.slope_at_zero, relu.slope_at_one) or 0)


_NEAR = 1e-6


def _homogeneous_slope_at_one(generator: torch.Generator) -> Statement:
    """(1 - κ(1-h))/h for φ = a relu(x) + b relu(-x), from the kernel κ₀ of ReLU: (a² + b²) κ₀(ρ) + 2ab κ₀(-ρ)."""
    positive, negative = draw(generator, -2.0, 2.0), draw(generator, -2.0, 2.0)
    own, cross = positive**2 + negative**2, 2 * positive * negative
    overlaps = torch.tensor([1.0, 1 - _NEAR], dtype=torch.float64)
    at_one, near = (own * relu_overlap_map(overlaps) + cross * relu_overlap_map(-overlaps)).tolist()
    # κ₀ is 1 - x + 2√2 x^(3/2)/(3π) at 1 - x, and as much at x - 1.
    return Statement((1 - near / at_one) / _NEAR, "=", 1.0, _NEAR**0.5)


# Corollary 5.10 and Remark 5.9.


def _corollary(start: float, right: float) -> Statement:
    return Statement(abs(kernel_map("tanh")(start)), "<=", right * kernel_map("tanh").rate, ROUNDING)


def _corollary_random(generator: torch.Generator) -> Statement:
    kappa, start = random_map(generator, centered=True), draw(generator, -1.0, 1.0)
    return Statement(abs(kappa(start)), "<=", potential(start) / (2 - kappa.squares[1]), ROUNDING)


def _nonlinear_share_of_relu() -> float:
    """Σ_{k≥2} c_k²."""
    relu = kernel_map("relu")
    assert abs(relu.slope_at_one - 1) < ROUNDING
    return 1 - relu.at_zero - relu.slope_at_zero


def _nonlinear_share_random(generator: torch.Generator) -> Statement:
    kappa = random_map(generator)
    return Statement(sum(kappa.squares[2:]), "<=", 1 - kappa.derivative(0.0), ROUNDING)


ERRATA: tuple[Erratum, ...] = (
    Erratum(
        key="joudaki2024-theorem-5.11-case-1",
        source="joudaki2024",
        where="Theorem 5.11, case 1, equation (5.7)",
        printed="If κ(0) = 0, then ρ* = 0 is an attracting with rate |ρ_ℓ|/(1−|ρ_ℓ|) ≤ |ρ_0|/(1−|ρ_0|) (1/κ′(1))^ℓ",
        case="tanh, ρ_0 = 1/2, the first layer: 1/κ′(1) = 0.849 is less than even κ′(0) = 0.930, the slope at the end",
        corrected="|ρ_ℓ|/(1−|ρ_ℓ|) ≤ |ρ_0|/(1−|ρ_0|) α^ℓ with α = 1/(2−κ′(0)), as in Theorem 5.8",
        why="1/κ′(1) is the contraction in the limit ρ → 1 only, where it is strongest; Theorem 5.8 has it right.",
        printed_at_case=_case_one_printed,
        corrected_at_case=_case_one_corrected,
        corrected_at_random=_case_one_random,
    ),
    Erratum(
        key="joudaki2024-theorem-5.11-case-4",
        source="joudaki2024",
        where="Theorem 5.11, case 4, equation (5.10)",
        printed="|ρ_ℓ−ρ*| ≤ |ρ_0−ρ*|/(1−|ρ_0|) α^ℓ, α = max{1−κ(0), κ′(ρ*), (1−ρ*)/(2−κ′(ρ*))}",
        case="κ(ρ) = 0.4 + 0.6 ρ², so ρ* = 2/3, κ′(ρ*) = 0.8 and the printed α = 0.8; ρ_0 = 0.9999, 80 layers",
        corrected="the same with α = max{1−κ(0), κ′(ρ*), 1/(2−κ′(ρ*))}, here 5/6",
        why="In the last line of the step ρ ≥ ρ* the sum Σ a_k (1−ρ*)^(k−1) is (1−ρ*)/(1−ρ*) = 1 and not 1−ρ*.",
        printed_at_case=_case_four_printed,
        corrected_at_case=_case_four_corrected,
        corrected_at_random=_case_four_random,
        random_cases=300,
    ),
    Erratum(
        key="joudaki2024-theorem-5.15",
        source="joudaki2024",
        where="Theorem 5.15, equation (5.14)",
        printed="|ρ_ℓ|/(1−|ρ_ℓ|) ≤ |ρ_0|/(1−|ρ_0|) α^ℓ, α = (κ(1)−κ(0))/κ′(1) [for post-act LN and any non-linear φ]",
        case="ReLU followed by layer normalization, ρ_0 = 1/2, the first layer",
        corrected="the same with α = 1/(2 − κ′(0)/(κ(1)−κ(0)))",
        why="As in Theorem 5.11, case 1: the proof rests on Theorem 5.8, whose rate has κ′(0), not κ′(1).",
        printed_at_case=_normalized_printed,
        corrected_at_case=_normalized_corrected,
        corrected_at_random=_normalized_random,
    ),
    Erratum(
        key="joudaki2024-figure-5.2",
        source="joudaki2024",
        where="Figure 5.2 (b) and section 5.7",
        printed="(b) Case 2: ReLU activation [Theorem 5.11: 2. If κ(0) > 0 and κ′(1) < 1]",
        case="ReLU: κ′(1) = E φ′²/E φ² = (1/2)/(1/2) = 1",
        corrected="ReLU, as every positively homogeneous activation, has κ′(1) = 1 and is in case 3: 1−ρ_ℓ ~ 9π²/(2ℓ²)",
        why="A Hermite series of ReLU cut at 25 terms has κ′(1) = 0.948; κ′(1) is E φ′², not a truncated sum.",
        printed_at_case=lambda: Statement(_relu_case(), "=", 2.0),
        corrected_at_case=lambda: Statement(_relu_case(), "=", 3.0),
        corrected_at_random=_homogeneous_slope_at_one,
    ),
    Erratum(
        key="joudaki2024-corollary-5.10",
        source="joudaki2024",
        where="Corollary 5.10",
        printed="converges to zero with rate |ρ_ℓ| ≤ ρ_0/(1−|ρ_0|) α^ℓ ... The proof follows directly from Theorem 5.8 "
        "and the inequality |ρ_ℓ| ≤ |ρ_ℓ| ≤ (1−|ρ_ℓ|)",
        case="tanh, ρ_0 = −1/2, the first layer: the right-hand side is negative",
        corrected="|ρ_ℓ| ≤ |ρ_0|/(1−|ρ_0|) α^ℓ, from |ρ| ≤ |ρ|/(1−|ρ|)",
        why="The modulus of ρ_0 and a fraction bar are missing.",
        printed_at_case=lambda: _corollary(-_START, -_START / (1 - _START)),
        corrected_at_case=lambda: _corollary(-_START, potential(_START)),
        corrected_at_random=_corollary_random,
    ),
    Erratum(
        key="joudaki2024-remark-5.9",
        source="joudaki2024",
        where="Remark 5.9, and the proof of Theorem 5.11 (“κ′(1) = 1 is impossible”)",
        printed="if we have κ′(1) = 1, it implies that c_k = 0 for all k ≥ 2",
        case="ReLU: κ′(1) = 1, but Σ_{k≥2} c_k² = 1/2 − 1/π = 0.18",
        corrected="if κ′(0) = 1, then c_k = 0 for all k ≥ 2: Σ_{k≥2} c_k² ≤ 1 − κ′(0)",
        why="κ′(0) = c_1² was meant; that κ′(1) = 1 is possible is case 3 of the same theorem.",
        printed_at_case=lambda: Statement(_nonlinear_share_of_relu(), "=", 0.0, ROUNDING),
        corrected_at_case=lambda: Statement(
            _nonlinear_share_of_relu(), "<=", 1 - kernel_map("relu").slope_at_zero, ROUNDING
        ),
        corrected_at_random=_nonlinear_share_random,
    ),
)
