"""The effect of one wide random layer on a pair of samples, as expectations over its Gaussian pre-activations."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.gram.sphere import require_batch
from orthoscope.theory.network.hyperparameters import LostSignal, require_signal
from orthoscope.theory.quadrature import PANEL_REACH, Pairs, gaussian_pairs, gaussian_panels, panels, standard_density
from orthoscope.theory.sources import source

_TAIL = 1e-3  # share of the mean square beyond reach from which numbers are wrong
_DEPENDENT = 1e-12  # samples that close to parallel are one, or opposite


@dataclass(frozen=True)
class LayerMoments:
    r"""Expectations over $X, Y \sim \mathcal{N}(0, q)$ of correlation $\rho$: one unit's inputs for two samples."""

    mean: float  # E φ(X)
    square: float  # E φ(X)²
    spread: float  # ½ E (φ(X) − φ(Y))² = E φ(X)² − E φ(X)φ(Y), without cancellation
    slope_square: float  # E φ′(X)²
    # E φ′(X)φ′(Y), jumps of φ included, since they turn angles; `slope_square` is without, as they pass no gradient.
    slope_product: float
    noise: float  # variance of the cosine of two samples over d units, times d

    @property
    def overlap(self) -> float:
        """Cosine of the two samples after the activation."""
        return 1 - self.spread / self.square


@source(
    "poole2016",
    "equations (3) and (5), with the sampling variance added",
    assumes="Gaussian pre-activations; the noise to first order in 1/width",
)
def layer_moments(
    activation: Nonlinearity,
    variance: float,
    overlap: float,
    *,
    centered: bool = False,
    rotation: bool = False,
    bias_share: float = 0.0,
) -> LayerMoments:
    r"""Moments of $a = \phi(X), b = \phi(Y)$ (of $a - \mathbb{E}a, b - \mathbb{E}b$ if `centered`, as in layer norm).

    The cosine of two samples over $d$ units is a ratio of means. To first order in $1/d$ its variance is
    `noise`/d, with $r$ the limit of the cosine:

    $$ \text{noise} = \mathbb{E} f^2 / (\mathbb{E} a^2)^2, \qquad
       f = ab - \tfrac{r}{2}(a^2 + b^2) = \tfrac{1-r}{2}(a^2 + b^2) - \tfrac12 (a - b)^2 $$

    A `rotation` keeps lengths and angles of pre-activations exactly, but for a bias, which has the `bias_share` of
    their variance; what is kept explains part of $f$, and that is no noise then.
    """
    pairs = gaussian_pairs(activation, variance, overlap)
    first, second = activation(pairs.first), activation(pairs.second)
    mean = pairs.mean(first)
    if centered:
        first, second = first - mean, second - mean
    square = pairs.mean(first.square())
    _require_in_reach(activation, variance, square)
    # Of mean square 1 from here on, so that no square overflows or vanishes.
    first, second = first / math.sqrt(square), second / math.sqrt(square)
    halved = (first - second).square() / 2
    spread = pairs.mean(halved)
    deviation = spread * (first.square() + second.square()) / 2 - halved
    noise = pairs.mean(deviation.square())
    if rotation:
        noise = max(0.0, noise - _explained(deviation, pairs, variance, overlap, bias_share))
    return LayerMoments(
        mean=0.0 if centered else mean,
        square=square,
        spread=square * spread,
        slope_square=pairs.mean(activation.derivative(pairs.first).square()),
        slope_product=_slope_product(activation, pairs, square * halved, variance, overlap),
        noise=noise,
    )


def _require_in_reach(activation: Nonlinearity, variance: float, square: float) -> None:
    """Refuse signals out of the range of floats, and mean squares made by values that no unit of a network has."""
    require_signal(square)
    edges = torch.tensor([-PANEL_REACH, PANEL_REACH], dtype=torch.float64)
    tails = activation(math.sqrt(variance) * edges).square() * standard_density(edges)
    if float(tails.max()) > _TAIL * square:
        # Where the tails carry all, the size grows or shrinks beyond bounds from one layer to the next.
        raise LostSignal(
            f"signals {'overflow' if variance > 1 else 'vanish'}, as {activation.name} of a Gaussian of variance "
            f"{variance:.3g} is made by its tails,"
        )


def _slope_product(
    activation: Nonlinearity, pairs: Pairs, halved: Float[Tensor, " nodes"], variance: float, overlap: float
) -> float:
    r"""$\mathbb{E}\phi'(X)\phi'(Y) = \tfrac1q \tfrac{d}{d\rho} \mathbb{E}\phi(X)\phi(Y)$ without slopes: jumps count.

    $$ -\tfrac1q\,\mathbb{E}\Big[\tfrac12(\phi(X) - \phi(Y))^2
       \Big(\frac{U^2 - 1}{2(1+\rho)} - \frac{V^2 - 1}{2(1-\rho)}\Big)\Big] $$

    The brackets are the change with $\rho$ of the log-density of $X \pm Y$, which are $\sqrt{2q(1 \pm \rho)}$ times
    the standard and independent $U$ and $V$.
    """
    along, across = 2 * (1 + overlap), 2 * (1 - overlap)
    if min(along, across) < _DEPENDENT:
        return pairs.mean(activation.derivative(pairs.first) * activation.derivative(pairs.second))
    scale = math.sqrt(variance)
    u_square = ((pairs.first + pairs.second) / scale).square() / along
    v_square = ((pairs.first - pairs.second) / scale).square() / across
    return -pairs.mean(halved * ((u_square - 1) / along - (v_square - 1) / across)) / variance


def _explained(
    deviation: Float[Tensor, " nodes"], pairs: Pairs, variance: float, overlap: float, bias_share: float
) -> float:
    r"""The part of $\mathbb{E}f^2$ that a rotation keeps, with $\beta$ the share of the bias and $U, V$ as above.

    $$ \tfrac12 (\mathbb{E} f V^2)^2 + \tfrac12 \Big(1 - \frac{2\beta}{1+\rho}\Big)^2 (\mathbb{E} f U^2)^2 $$

    Mean squares of sums and differences of samples are kept. A bias is part of the sum: $1 - 2\beta/(1+\rho)$ is
    the share of the weights in its variance, and the squared correlation of its square with what is kept.
    """
    along, across = 2 * (1 + overlap), 2 * (1 - overlap)
    scale = math.sqrt(variance)
    explained = 0.0
    if across > _DEPENDENT:
        explained += pairs.mean(deviation * ((pairs.first - pairs.second) / scale).square() / across) ** 2 / 2
    if along > _DEPENDENT:
        of_sums = pairs.mean(deviation * ((pairs.first + pairs.second) / scale).square() / along)
        explained += ((1 - 4 * bias_share / along) * of_sums) ** 2 / 2
    return explained


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
