"""The limit of the overlap in a deep random network, and its rate: the convergence theorem with corrected rates."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source

ROUNDING = 1e-11
# κ'(1) of a positively homogeneous activation is 1; quadrature gives it to 1e-14.
SLOPE_ERROR = 4e-14
# κ'(1) - 1 = Σ (k-1) c_k² is of the size of κ(0) = c₀² or less: below this it is 0 to rounding.
_LEAST_AT_ZERO = 1e-12
_SERIES_ERROR = 1e-9  # of the coefficients of 1 - κ, from a numerical derivative
_SMALL = 0.1  # distance up to which its first order in 1/depth is a good approximation


@dataclass(frozen=True)
class Landmarks:
    r"""What the theorem asks of a kernel map with $\kappa(1) = 1$."""

    at_zero: float  # κ(0)
    slope_at_zero: float  # κ'(0)
    slope_at_one: float  # κ'(1), may be infinite
    fixed_point: float  # ρ*
    slope_at_fixed_point: float  # κ'(ρ*)


@source("joudaki2024", "Theorem 5.11", assumes="infinite width, κ(1) = 1")
def convergence_case(at_zero: float, slope_at_zero: float, slope_at_one: float) -> int | None:
    r"""Which of the four cases a kernel map is in; `None` for the identity, of which every overlap is a fixed point.

    1. $\kappa(0) = 0$: tends to orthogonality. 2. $\kappa(0) > 0$ and $\kappa'(1) < 1$: to $\rho^* = 1$, geometrically.
    3. $\kappa(0) > 0$ and $\kappa'(1) = 1$: to 1, slowly. 4. $\kappa(0) > 0$ and $\kappa'(1) > 1$: to $0 < \rho^* < 1$.
    An affine activation with a constant term has $\kappa'(1) = \kappa'(0) < 1$: case 2, whose rate is then exact.
    """
    if at_zero <= ROUNDING**2:
        return None if slope_at_zero >= 1 - ROUNDING else 1
    excess = slope_at_one - 1
    if abs(excess) > max(SLOPE_ERROR, ROUNDING * at_zero):
        return 2 if excess < 0 else 4
    if at_zero < _LEAST_AT_ZERO:
        raise ValueError(
            f"the activation is so close to linear (κ(0) = {at_zero:.1g}) that κ'(1) is 1 to rounding in float64: "
            "give a larger input variance or gain"
        )
    return 3


@source("joudaki2024", "Theorem 5.11 (corrected)", assumes="infinite width, κ(1) = 1, φ not linear")
def contraction_rate(landmarks: Landmarks) -> float:
    r"""The factor $\alpha$ by which a layer brings an overlap nearer to $\rho^*$, at worst; smaller is faster.

    Case 1: $\alpha = 1/(2 - \kappa'(0))$, for $|\rho|/(1-|\rho|)$. Case 2: $\alpha = \kappa'(1)$, for $1 - \rho$.
    Case 4: $\alpha = \max\{1 - \kappa(0),\ \kappa'(\rho^*),\ 1/(2 - \kappa'(\rho^*))\}$, for $|\rho - \rho^*|$.
    In case 3, and for the identity, no factor below 1 exists: 1.
    """
    case = convergence_case(landmarks.at_zero, landmarks.slope_at_zero, landmarks.slope_at_one)
    if case == 1:
        return 1 / (2 - landmarks.slope_at_zero)
    if case == 2:
        return landmarks.slope_at_one
    if case == 4:
        slope = landmarks.slope_at_fixed_point
        return max(1 - landmarks.at_zero, slope, 1 / (2 - slope))
    return 1.0


@source("joudaki2024", "Theorem 5.11 (corrected)", assumes="infinite width, κ(1) = 1, φ not linear, |ρ₀| < 1")
def distance_bound(landmarks: Landmarks, overlap: Float[Tensor, "*pairs"], depth: int) -> Float[Tensor, "*pairs"]:
    r"""What $|\rho_\ell - \rho^*|$ cannot exceed after $\ell$ = `depth` layers from $\rho_0$ = `overlap`.

    Case 1: $\psi/(1+\psi)$ with $\psi = \alpha^\ell |\rho_0|/(1-|\rho_0|)$. Case 2: $(1-\rho_0)\,\alpha^\ell$.
    Case 3: $(1-\rho_0)/(1 + \ell a (1-\rho_0))$ with $a = 1 - \kappa(0) - \kappa'(0)$, and with the larger
    $a = \kappa(0)$ if $\rho_0 \ge 0$: there $(1-x)^k \ge 1 - kx + (k-1)x^2$ for $k \ge 1$, and the sum over $k$ is
    $\kappa(1-x) \ge 1 - x + ax^2$.
    Case 4: $\alpha^\ell\,|\rho_0 - \rho^*|/(1 - |\rho_0|)$.

    Args:
        landmarks: Values, slopes and fixed point of a kernel map (`KernelMap.landmarks`).
        overlap: $\rho_0$.
        depth: Number of layers $L$ or $\ell$.
    """
    if depth < 0:
        raise ValueError(f"depth is {depth}, but must be at least 0")
    case = convergence_case(landmarks.at_zero, landmarks.slope_at_zero, landmarks.slope_at_one)
    if case is None:
        raise ValueError("a linear activation leaves every overlap unchanged: there is no limit")
    shrunk = contraction_rate(landmarks) ** depth
    start = overlap.double()
    if case == 1:
        potential = shrunk * start.abs() / (1 - start.abs())
        return torch.where(start.abs() < 1, potential / (1 + potential), 1.0)
    if case == 2:
        return (1 - start) * shrunk
    if case == 3:
        above, below = landmarks.at_zero, 1 - landmarks.at_zero - landmarks.slope_at_zero
        curvature = torch.where(start >= 0, start.new_tensor(above), start.new_tensor(below))
        return (1 - start) / (1 + depth * curvature * (1 - start))
    return shrunk * (start - landmarks.fixed_point).abs() / (1 - start.abs())


@source("joudaki2024", "Theorem 5.15 (corrected)", assumes="infinite width, LN after φ or E φ(X) = 0, φ not linear")
def normalized_rate(at_zero: float, at_one: float, slope_at_zero: float) -> float:
    r"""Rate towards orthogonality of a network with normalization, from the map of $\phi$ before normalization.

    $$ \frac{|\rho_\ell|}{1-|\rho_\ell|} \le \alpha^\ell \frac{|\rho_0|}{1-|\rho_0|},
    \qquad \alpha = \frac{1}{2 - \kappa'(0)/(\kappa(1) - \kappa(0))} $$
    """
    if not at_one > at_zero:
        raise ValueError(f"κ(1) is {at_one} and κ(0) is {at_zero}, but a map that is not constant has κ(1) > κ(0)")
    return 1 / (2 - slope_at_zero / (at_one - at_zero))


@source("orthoscope", "case 3, asymptotic", assumes="infinite width, κ'(1) = 1, many layers")
def slow_distance(sqrt_coefficient: float, linear_coefficient: float, depth: int) -> float:
    r"""$1 - \rho_\ell$ after many layers where $\kappa'(1) = 1$, whatever $\rho_0$.

    With $x = 1 - \rho$ and $1 - \kappa = x\,(1 - a\sqrt x - b\,x - \dots)$: $4/(a\ell)^2$, or $1/(b\ell)$ if $a = 0$.
    Kinks have $a > 0$: ReLU $9\pi^2/(2\ell^2)$. A smooth activation has $a = 0$, $b = \kappa''(1)/2$: exp $2/\ell$.

    Args:
        sqrt_coefficient: $a$.
        linear_coefficient: $b$.
        depth: Number of layers $L$ or $\ell$.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}, but must be at least 1")
    if sqrt_coefficient > _SERIES_ERROR:
        distance = 4 / (sqrt_coefficient * depth) ** 2
    else:
        distance = 1 / (linear_coefficient * depth) if linear_coefficient > _SERIES_ERROR else math.inf
    if distance > _SMALL:
        raise ValueError(
            f"{depth} layers are too few for the asymptotics, which give a distance of {distance:.2g}: they need one "
            f"below {_SMALL:g}, follow the trajectory instead"
        )
    return distance
