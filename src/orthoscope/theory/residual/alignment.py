r"""Aligned residual networks: their representations, a trace inequality, and the unconstrained Jacobians model.

Blocks whose Jacobians share their singular vectors have the representations of `aligned_representations`;
`rotated_trace_supremum` is the largest trace of a product of matrices that may be rotated independently. In the
unconstrained Jacobians model only the Jacobians of the blocks and the head are trained:

$$ \min_{w, J_1,\dots,J_L}\ \log(1+e^{-z}) + \frac\lambda2\sum_i\|J_i\|_F^2 + \frac\lambda2\|w\|^2,
   \qquad z = y\,w^\top \prod_i (I+J_i)\,\Delta x, \quad y = \pm1 $$

Since $z \le \|w\|\,\|\Delta x\|\prod_i(1+\|J_i\|_2)$, with equality only for $J_i = s_iuu^\top$, $w \propto yu$ and
$u = \Delta x/\|\Delta x\|$, and since $\prod(1+s_i)$ is largest and $\sum s_i^2$ smallest for equal $s_i$, every global
optimum has equal, aligned Jacobians of rank one, and two numbers are left: $s$ and $\|w\|$.
"""

from dataclasses import dataclass
from math import exp, inf, log, log1p, sqrt

import torch
from jaxtyping import Float
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, log_expit
from torch import Tensor

from orthoscope.theory.sources import source

# Directions must be orthonormal up to rounding in float32.
ORTHONORMAL = 1e-5
# Beyond exp(700) float64 overflows; the logistic loss underflows long before.
LARGEST_EXPONENT = 700.0
LOGIT_WITHOUT_TURNING = 1.3  # zσ(z) > 1 from here on
FINEST = 4 * 2.0**-52  # relative tolerance of a root: the smallest that scipy accepts


@source(
    "li2023",
    "Theorem 3.1, equation (1) (corrected)",
    assumes="pre-activation residual network, exactly linear blocks, J_i = U diag(s_i) Uᵀ with one U for all blocks",
)
def aligned_representations(
    initial: Float[Tensor, "units"],
    directions: Float[Tensor, "units rank"],
    singular_values: Float[Tensor, "layers rank"],
) -> Float[Tensor, "representations units"]:
    r"""The input $h_1$ of the first block and the output of every one, $h_{i+1} = (I + US_iU^\top)h_i$.

    $$ h_k = h_1 + \sum_r \Big(\prod_{i<k}(1+s_{ir}) - 1\Big)\, u_r u_r^\top h_1, \qquad k = 1, \dots, L+1 $$

    What is orthogonal to the directions passes unchanged; the printed form loses it. For one direction and
    $s_i = 1/i$ this is $h_k = h_1 + (k-1)\,uu^\top h_1$: points on a line, equally far apart.

    Args:
        initial: $h_1$.
        directions: $U$, orthonormal columns.
        singular_values: $s_{ir}$.
    """
    frame = directions.double()
    units, rank = frame.shape
    excess = float((frame.mT @ frame - torch.eye(rank, dtype=frame.dtype)).abs().max()) if rank else 0.0
    if not excess < ORTHONORMAL:
        raise ValueError(
            f"directions must be {rank} orthonormal columns of {units} units, but UᵀU is {excess:.3g} from the "
            "identity: orthonormalize them, for example with torch.linalg.qr"
        )
    start = initial.double()
    none = torch.zeros(1, rank, dtype=frame.dtype)
    # Σ log(1+s) would lose s = −1, a block that erases its direction.
    growth = torch.cat([none, (1 + singular_values.double()).cumprod(0) - 1])
    return start + (growth * (frame.mT @ start)) @ frame.mT


@source(
    "li2023",
    "Theorem 3.1 (converse, derived for this library)",
    assumes="exactly linear blocks with shared singular vectors",
)
def equispacing_singular_values(depth: int, first: float = 1.0) -> Float[Tensor, "layers"]:
    r"""The only singular values, given the first, for which the representations are equally far apart.

    $$ \frac1{s_i} = \frac1{s_1} + i - 1, \qquad i = 1, \dots, L $$

    The step of block $i$ is $s_i\prod_{j<i}(1+s_j)$ times the first coefficient: constant if and only if $s_i$
    is as above. So $1/s_i$ is linear in depth *with slope 1*; $s_1 = 1$ is the law $s_i = 1/i$ of the paper.

    Args:
        depth: Number of layers $L$ or $\ell$.
        first: $s_1$.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1 block, got {depth}")
    if not first > 0:
        raise ValueError(f"the first singular value must be positive, got {first}")
    return 1 / (1 / first + torch.arange(depth, dtype=torch.float64))


@source(
    "miranda1993", "trace inequality; li2023, Theorem 2", assumes="real square matrices, rotations of determinant 1"
)
def rotated_trace_supremum(matrices: Float[Tensor, "*batch factors n n"]) -> Float[Tensor, "*batch"]:
    r"""The largest trace of $A_1P_1\cdots A_mP_m$ over all rotations $P_1, \dots, P_m$ of determinant 1.

    $$ \max_{P_j \in SO(n)} \operatorname{tr}(A_1P_1\cdots A_mP_m)
       = \sum_{i<n} \prod_j s_i(A_j) + \operatorname{sign}\det(A_1\cdots A_m) \prod_j s_n(A_j) $$

    with the singular values $s_1 \ge \dots \ge s_n$ of each factor. It is attained. If reflections are allowed
    too, the last sign is always $+$: von Neumann's inequality.

    Args:
        matrices: $A_1, \dots, A_m$.
    """
    factors, size = matrices.shape[-3:-1]
    if factors < 1 or size < 1:
        raise ValueError(f"the trace needs at least one matrix of at least one row, got {factors} of size {size}")
    aligned = torch.linalg.svdvals(matrices.double()).prod(-2)
    # A singular factor has s_n = 0, so the sign that rounding gives its determinant does not matter.
    sign = torch.linalg.slogdet(matrices.double()).sign.prod(-1)
    return aligned[..., :-1].sum(-1) + sign * aligned[..., -1]


@dataclass(frozen=True)
class JacobiansOptimum:
    r"""The global optimum of the unconstrained Jacobians model.

    Attributes:
        depth: Number of blocks.
        decay: Weight decay.
        input_norm: $\|\Delta x\|$.
        singular_value: The only one of every Jacobian.
        head_norm: $\|w\|$.
        logit: Of the right class.
        loss: Logistic loss, without the decay.
        objective: Loss and decay: what is minimized.
    """

    depth: int
    decay: float
    input_norm: float
    singular_value: float
    head_norm: float
    logit: float
    loss: float
    objective: float


@source(
    "li2023",
    "Theorem 3.3",
    assumes="logistic loss, one example, linearized blocks, weight decay on the Jacobians themselves",
)
def unconstrained_jacobians_optimum(depth: int, decay: float, *, input_norm: float = 1.0) -> JacobiansOptimum:
    r"""Singular value and head norm at the global optimum, exact up to rounding.

    A stationary point has $\|w\|^2 = s(1+s)$, whatever $\|\Delta x\|$, $\lambda$ and $L$, which leaves one equation,

    $$ \frac{\|\Delta x\|\,(1+s)^{L-1/2}}{1+e^{z}} = \lambda\sqrt s, \qquad z = \|\Delta x\|\sqrt s\,(1+s)^{L+1/2} $$

    with one to three roots, of which the one of least objective is returned: two are minima when $\|\Delta x\|$ is
    small or $L$ large, and $s$ then jumps as $\lambda$ passes the value where they are equally good.
    Never zero: for large $\lambda$, $s \approx \|\Delta x\|^2/(4\lambda^2)$. All $s_i$ are equal: not $1/i$.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1 block, got {depth}")
    if not 0 < decay < inf or not 0 < input_norm < inf:
        raise ValueError(f"decay and input_norm must be positive and finite, got {decay} and {input_norm}")
    log_scale = log(input_norm)
    intervals = _monotone_intervals(depth, log_scale)
    roots = [_root(depth, log_scale, log(decay), low, high) for low, high in intervals]
    candidates = [_optimum(depth, decay, input_norm, exp(root)) for root in roots if root is not None]
    return min(candidates, key=lambda optimum: optimum.objective)


def _optimum(depth: int, decay: float, input_norm: float, s: float) -> JacobiansOptimum:
    head_norm = sqrt(s * (1 + s))
    logit = exp(_log_logit(depth, log(input_norm), log(s)))
    loss = -float(log_expit(logit))
    objective = loss + decay / 2 * (depth * s * s + head_norm**2)
    return JacobiansOptimum(depth, decay, input_norm, s, head_norm, logit, loss, objective)


def _log_logit(depth: int, log_scale: float, log_s: float) -> float:
    growth = (depth + 0.5) * log1p(exp(min(log_s, LARGEST_EXPONENT)))
    return min(log_scale + log_s / 2 + growth, LARGEST_EXPONENT)


def _slope(depth: int, log_scale: float, log_decay: float, log_s: float) -> float:
    r"""Logarithm of left over right of the equation for $s$: positive where the objective falls with $s$."""
    logit = exp(_log_logit(depth, log_scale, log_s))
    return float(log_expit(-logit)) + log_scale + (depth - 0.5) * log1p(exp(log_s)) - log_decay - log_s / 2


def _turning(depth: int, log_scale: float, q: float) -> float:
    r"""Positive where `_slope` falls with $s$, in $q = s/(1+s)$: $z\sigma(z) - ((2L-1)q-1)/((2L+1)q+1)$.

    The fraction is concave and below 1. Where it is positive, $z = \|\Delta x\|\sqrt q\,(1-q)^{-L-1}$ is convex in $q$,
    and so is $z\sigma(z)$ as long as $z\tanh(z/2) < 2$; from $z = 1.3$ on it exceeds 1: at most two zeros.
    """
    logit = exp(_log_logit(depth, log_scale, _log_odds(q)))
    return logit * float(expit(logit)) - ((2 * depth - 1) * q - 1) / ((2 * depth + 1) * q + 1)


def _log_odds(q: float) -> float:
    return log(q) - log1p(-q)


def _monotone_intervals(depth: int, log_scale: float) -> list[tuple[float, float]]:
    r"""Intervals of $\log s$ that cover the line and on each of which `_slope` is monotone: one, or three."""

    def turning(q: float) -> float:
        return _turning(depth, log_scale, q)

    def log_logit(q: float) -> float:
        return _log_logit(depth, log_scale, _log_odds(q)) - log(LOGIT_WITHOUT_TURNING)

    left, right = 1 / (2 * depth - 1), 1 - FINEST
    if depth == 1 or log_logit(left) >= 0:
        return [(-inf, inf)]
    right = float(brentq(log_logit, left, right, xtol=FINEST * left))
    accuracy = {"xatol": 1e-9 * (right - left)}
    lowest = float(minimize_scalar(turning, bounds=(left, right), method="bounded", options=accuracy).x)
    if turning(lowest) >= 0:
        return [(-inf, inf)]
    first, second = (
        _log_odds(brentq(turning, low, high, xtol=FINEST * left)) for low, high in ((left, lowest), (lowest, right))
    )
    return [(-inf, first), (first, second), (second, inf)]


def _root(depth: int, log_scale: float, log_decay: float, low: float, high: float) -> float | None:
    """Where `_slope` is zero in an interval in which it is monotone; None if it keeps its sign."""

    def slope(log_s: float) -> float:
        return _slope(depth, log_scale, log_decay, log_s)

    # Toward -∞ the slope is positive, toward ∞ negative: there a step of 1 in log s moves it by about 1/2 or more.
    if low == -inf:
        low = min(high, 0.0)
        while slope(low) <= 0:
            low -= 1
    if high == inf:
        high = max(low, 0.0)
        while slope(high) >= 0:
            high += 1
    if slope(low) * slope(high) > 0:
        return None
    return float(brentq(slope, low, high, xtol=FINEST, rtol=FINEST))
