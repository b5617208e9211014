"""How far the spectrum of a skew-Hermitian matrix reaches: a certain bound without an eigenvalue or a random vector."""

import torch
from torch import Tensor


def spectral_bounds(matrix: Tensor, square: Tensor, cube: Tensor, skew: bool) -> list[float]:
    r"""For each $A$ of a batch, given with $A^2$ and $A^3$: not below any $|\theta|$ of its eigenvalues $i\theta$.

    Let $\lambda = \theta^2$, taken once for each pair $\pm i\theta$ if $A$ is real, and $t_j = \sum \lambda^j$.
    Under the weights $\lambda/t_1$ the $\lambda$ have mean $a = t_2/t_1$ and variance $v = t_3/t_1 - a^2$, so that
    Cantelli's inequality holds for the largest of them:

    $$ \frac{\lambda}{t_1} \le \frac{v}{v + (\lambda - a)^2}, \qquad
       t_j = |\operatorname{tr} A^{2j}| \text{ (half of it, if } A \text{ is real)} $$

    The bound on $\lambda$ is the largest root of this cubic or $t_3^{1/3}$, whichever is less. For a Gaussian skew
    matrix of norm 1 and size 2048 it gives $\theta \le 1.7$, where $\|A\|_1$ is 19 and $\|A^2\|_1^{1/2}$ is 3.
    With `skew`, $|\operatorname{tr} A^{2j}| = \|A^j\|_F^2$; without, $A$ is only similar to such a matrix.
    Matrices that are not finite, or whose cubes are not, give nan or infinity, and those without numbers 0.
    """
    if matrix.is_meta:
        return [0.0] * len(matrix)
    multiplicity = 1 if matrix.is_complex() else 2
    traces = torch.stack([_even_trace(power, skew) for power in (matrix, square, cube)], dim=-1) / multiplicity
    return [_largest(*sums) ** 0.5 for sums in traces.tolist()]


def _even_trace(power: Tensor, skew: bool) -> Tensor:
    r"""$|\operatorname{tr} P^2|$ in double precision."""
    if skew:
        return torch.linalg.matrix_norm(power).double().square()
    return (power * power.mT).sum((-2, -1)).abs().double()


def _largest(t1: float, t2: float, t3: float) -> float:
    """The bound on λ, by Newton's method on the cubic.

    The cubic is convex from the mean on, so that from its first step on Newton's method comes down from the
    right of the root: stopping early is safe.
    """
    if not 0 < t3 < float("inf"):
        return t1  # zero, so small that the cube vanished, or not finite
    mean = t2 / t1
    # Rounding must not make the variance too small; with more of it the bound only grows.
    variance = max(t3 / t1 - mean**2, 1e-5 * mean**2)
    root = limit = t3 ** (1 / 3)
    for _ in range(8):
        distance = root - mean
        root -= (root * (variance + distance**2) - variance * t1) / (variance + distance * (3 * root - mean))
    return min(root, limit)
