"""How far from orthogonal the differences of samples become at random, in a layer of finite width."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.activations import Nonlinearity
from orthoscope.theory.network.gaussian_pairs import gaussian_panels
from orthoscope.theory.panels import panels
from orthoscope.theory.sources import source

# Around a kink the conditional variance changes over one standard deviation of what is not shared.
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
    turns = torch.cat([torch.tensor(activation.kinks, dtype=torch.float64), fine.centres])
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
