r"""Noise of a layer of finite width: the variance of the cosine between two differences of samples.

Without batch norm (`difference_noise`) it is an expectation over Gaussian pre-activations; with it
(`sphere_difference_noise`) over points of a sphere, by quasi-random numbers.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.gram.sphere import require_batch
from orthoscope.theory.quadrature import gaussian_panels, panels
from orthoscope.theory.sources import source

LARGEST = 1024  # samples; with more, the values of one unit are Gaussian to good approximation
_ENTRIES = 2**19  # points times samples: right to 0.5 % at 4 samples, to 0.2 % from 16 on
# Around a kink the conditional variance changes over one standard deviation of the part that is not shared.
_STEPS = torch.tensor([-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0], dtype=torch.float64)


@source(
    "orthoscope",
    "variance of the cosine of two differences",
    assumes="exchangeable Gaussian pre-activations with an overlap of at least 0; first order in 1/width",
)
def difference_noise(activation: Nonlinearity, variance: float, overlap: float, *, rotation: bool = False) -> float:
    r"""$d$ times the variance of the cosine between $x_1 - x_2$ and $x_3 - x_4$ after a layer of $d$ units.

    With $X_i = \sqrt{q\rho}\,Z + \sqrt{q(1-\rho)}\,\xi_i$ the samples are independent given $Z$, so that

    $$ \text{noise} = \frac{\mathbb{E}\,w^2}{(\mathbb{E}\,w)^2} \ge 1, \qquad w = \operatorname{Var}(\phi(X)\,|\,Z) $$

    and a `rotation`, which leaves $(X_1 - X_2)(X_3 - X_4)$ as it is in the mean over units, takes
    $(\mathbb{E}\operatorname{Cov}(\phi(X), \xi\,|\,Z)^2 / \mathbb{E}\,w)^2$ away from it. Infinite where all $w = 0$.
    """
    if not 0 <= overlap < 1:
        raise ValueError(f"differences of samples need an overlap from 0 to 1, 1 excluded, got {overlap}")
    shared, own = math.sqrt(variance * overlap), math.sqrt(variance * (1 - overlap))
    fine = panels(activation, variance)
    turns = torch.cat([torch.tensor(activation.kinks, dtype=torch.float64), fine.centers])
    near = torch.cat([(turns[:, None] + own * _STEPS).flatten(), fine.edges])
    common, weights = gaussian_panels(near / shared, fine.width / shared) if shared > 0 else gaussian_panels(near[:0])
    variances, covariances = _given(activation, shared * common, own, torch.cat([turns, fine.edges]), fine.width / own)
    spread = float(weights @ variances)
    if not spread > 0:
        return math.inf
    noise = float(weights @ (variances / spread).square())
    kept = float(weights @ (covariances.square() / spread))
    return max(0.0, noise - kept**2) if rotation else noise


def _given(
    activation: Nonlinearity,
    means: Float[Tensor, " common"],
    own: float,
    cuts: Float[Tensor, " cuts"],
    width: float,
) -> tuple[Float[Tensor, " common"], Float[Tensor, " common"]]:
    """Var φ(m + own·ξ) and Cov(φ(m + own·ξ), ξ) for every m, ξ standard Gaussian."""
    xi, weights = gaussian_panels((cuts - means[:, None]) / own, width)
    values = activation(means[:, None] + own * xi)
    values = values - (weights * values).sum(-1, keepdim=True)
    return (weights * values.square()).sum(-1), (weights * values * xi).sum(-1)


@source(
    "orthoscope",
    "variance of the cosine of two differences after batch norm",
    assumes="Gaussian weights, exchangeable samples; first order in 1/width; quasi-random points, right to 1 percent",
)
def sphere_difference_noise(activation: Nonlinearity, samples: int, ratio: float) -> float:
    r"""$d$ times the variance of the cosine between $x_1 - x_2$ and $x_3 - x_4$ after $\phi \circ \mathrm{BN}$.

    The values of a unit before the norm are $h = z - \bar z + \sqrt r\,\bar z$ with $z$ standard Gaussian and $r$ the
    `ratio` of the eigenvalue of their Gram matrix along the mean to the others; 0 if the norm centers. With
    $y = \sqrt n\,h/\|h\|$ and $S = \tfrac12 E(\phi(y_1) - \phi(y_2))^2$,

    $$ \text{noise} = \frac{E\,(\phi(y_1) - \phi(y_2))^2 (\phi(y_3) - \phi(y_4))^2}{4S^2} $$

    averaged over samples by the power sums $p_k = \sum_i (\phi(y_i) - \bar\phi)^k$. Linear, centered: $m/(m+2)$ with
    $m = n - 1$. More than 1024 samples count as Gaussian. Infinite where all samples are one.
    """
    require_batch(samples, 4)
    if samples > LARGEST:
        # Of overlap ρ = (r - 1)/(r - 1 + n), but never below 0.
        return difference_noise(activation, 1.0, max(0.0, (ratio - 1) / (ratio - 1 + samples)))
    engine = torch.quasirandom.SobolEngine(samples, scramble=True, seed=0)
    points = engine.draw(_ENTRIES // samples, dtype=torch.float64)
    smallest = torch.finfo(torch.float64).eps
    z = torch.special.ndtri(points.clamp(smallest, 1 - smallest))
    h = z + (math.sqrt(ratio) - 1) * z.mean(-1, keepdim=True)
    values = activation(h / h.square().mean(-1, keepdim=True).sqrt())
    values = values - values.mean(-1, keepdim=True)
    second, fourth = values.square().sum(-1), values.pow(4).sum(-1)
    spread = float(second.mean()) / (samples - 1)
    if not spread > 0:
        return math.inf
    squared, fourth_sum = float(second.square().mean()), float(fourth.mean())
    pairs = (squared - fourth_sum) / (samples * (samples - 1))
    triples = (2 * fourth_sum - squared) / (samples * (samples - 1) * (samples - 2))
    quadruples = (3 * squared - 6 * fourth_sum) / (samples * (samples - 1) * (samples - 2) * (samples - 3))
    return (pairs - 2 * triples + quadruples) / spread**2
