"""How far from orthogonal the differences of samples become at random after batch norm, in a layer of finite width."""

import math

import torch

from orthoscope.theory.activations import Nonlinearity
from orthoscope.theory.gram.sphere import require_batch
from orthoscope.theory.network.difference_noise import difference_noise
from orthoscope.theory.sources import source

LARGEST = 1024  # samples; of more, one unit's values are as good as Gaussian
_ENTRIES = 2**19  # points times samples: right to 0.5 % at 4 samples, to 0.2 % from 16 on


@source(
    "orthoscope",
    "variance of the cosine of two differences after batch norm",
    assumes="Gaussian weights, exchangeable samples; first order in 1/width; quasi-random points, right to 1 percent",
)
def sphere_difference_noise(activation: Nonlinearity, samples: int, ratio: float) -> float:
    r"""$d$ times the variance of the cosine between $x_1 - x_2$ and $x_3 - x_4$ after $\phi \circ \mathrm{BN}$.

    The values of a unit before the norm are $h = z - \bar z + \sqrt r\,\bar z$ with $z$ standard Gaussian and $r$ the
    `ratio` of the eigenvalue of their Gram matrix along the mean to the others; 0 if the norm centres. With
    $y = \sqrt n\,h/\|h\|$ and $S = \tfrac12 E(\phi(y_1) - \phi(y_2))^2$,

    $$ \text{noise} = \frac{E\,(\phi(y_1) - \phi(y_2))^2 (\phi(y_3) - \phi(y_4))^2}{4S^2} $$

    averaged over all samples by the power sums $p_k = \sum_i (\phi(y_i) - \bar\phi)^k$. Linear, centred: $m/(m+2)$ with
    $m = n - 1$. More than 1024 samples are taken as Gaussian. Infinite where all samples are one.
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
