r"""Distance of the Gram matrix at finite width from the fixed point of infinite width, with batch norm.

Given the Gram matrix $G_\ell$, the units of the next layer are independent, so the next one is the mean-field map
$F(G_\ell)$ plus a noise $\xi/\sqrt d$ of mean 0. Near the fixed point $G_*$ the deviation $\delta = G - G_*$ is a
linear chain, $\delta_{\ell+1} = F'\delta_\ell + \xi/\sqrt d$, with the derivative of the angular central Gaussian law,

$$ F'\delta = k\,E\big[\phi(y)\phi(y)^\top\, y^\top \delta y\big], \qquad
   k = \frac{n-1}{2n(\kappa_{11}-\kappa_{12})}, $$

for $\delta$ traceless on $\mathbf{1}^\perp$; all else is forgotten at once. Relabeling samples commutes with $F'$, so
on such $\delta$ it has two rates only: one for $P\operatorname{diag}(v)P$ (samples of different weight), one for
matrices of zero diagonal and zero row sums (pairs of different overlap).
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Choice, Nonlinearity, nonlinearity
from orthoscope.theory.gram.dynamics import contrast, pair_law
from orthoscope.theory.gram.sphere import require_batch
from orthoscope.theory.sources import source


class Estimate(NamedTuple):
    """A number that was sampled, with its standard error."""

    value: float
    standard_error: float


class GramResponse(NamedTuple):
    r"""What $F'$ does to $\delta = P\operatorname{diag}(v)P$, with $s = \|F'\delta\|_F^2/\|v\|^2$, and to pairs.

    Attributes:
        sample_rate: $\mu_1$.
        sample_norm: $s$.
        pair_rate: $\mu_2$.
    """

    sample_rate: float
    sample_norm: float
    pair_rate: float

    @property
    def stable(self) -> bool:
        """Whether small deviations die out: if not, depth singles out some samples and leaves this fixed point."""
        return max(abs(self.sample_rate), abs(self.pair_rate)) < 1


@source(
    "orthoscope",
    "linear response at the Gram fixed point: the constant of joudaki2024, (3.9), whose proof rests on a false lemma",
    assumes="empirical as a law, first order in 1/width: deep, batch well below width, Gaussian weights, no bias, "
    "batch normalization with centering, a stable fixed point",
)
def finite_width_gram_error(
    activation: Choice,
    batch: int,
    width: int,
    *,
    gain: int | float = 1.0,
    draws: int = 20_000,
    generator: torch.Generator,
) -> Estimate:
    r"""Root mean square of $\|G_\ell - G_*\|_F$ deep in a network of width $d$: a constant times $d^{-1/2}$.

    $$ d\,E\|\delta\|_F^2 = E\|\xi\|_F^2 + \frac{s\,E\|v\|^2}{1-\mu_1^2} + \frac{\mu_2^2\,E\|\Pi\|_F^2}{1-\mu_2^2} $$

    with the rates $\mu_1, \mu_2$ and the norm $s$ of `gram_response`; for one unit, with $\psi = P\phi(y)$ and
    $w = P(\psi \circ \psi)$, the two parts of $\psi\psi^\top$ have $\|v\| = \tfrac{n}{n-2}\|w\|$ and
    $\|\Pi\|_F^2 = \tfrac{n-2}{n-1}\|\psi\|^4 - \tfrac{n}{n-2}\|w\|^2$. These two are averages over four
    coordinates and are sampled; the rest is quadrature. Linear: `linear_gram_error`, of order $n^{3/2} d^{-1/2}$.

    Args:
        activation: $\phi$: a name of `activations.ACTIVATIONS`, a module, or an elementwise function of tensors.
        batch: Number of samples $n$.
        width: Units $d$ of every layer.
        gain: $\alpha$ of the shaped activation $\phi(\alpha x)/\alpha$.
        draws: Number of random units for the two averages that are sampled.
        generator: Source of random numbers.
    """
    require_batch(batch, 4)
    if width < 1:
        raise ValueError(f"width is {width}, but must be at least 1")
    phi = nonlinearity(activation, gain)
    response = gram_response(phi, batch)
    if not response.stable:
        raise ValueError(
            f"activation {phi.name}: deviations from the fixed point grow with depth, samples do not stay alike"
        )
    weights, pairs = _sampled_parts(phi, batch, draws, generator)
    kept = response.sample_norm / (1 - response.sample_rate**2) * weights
    kept = kept + response.pair_rate**2 / (1 - response.pair_rate**2) * pairs
    squared = one_layer_noise(phi, batch) + float(kept.mean())
    error_of_square = float(kept.std()) / math.sqrt(draws)
    value = math.sqrt(squared / width)
    return Estimate(value, error_of_square / (2 * squared) * value)


@source(
    "orthoscope",
    "stationary deviation of the linear chain with centering; without, daneshmand2021's gap",
    assumes="deep, batch well below width, Gaussian weights, no bias, linear, batch normalization with centering",
)
def linear_gram_error(batch: int, width: int) -> float:
    r"""`finite_width_gram_error` of a linear network, in closed form, with $m = n-1$.

    $$ \sqrt{E\|G_\ell - G_*\|_F^2} = \frac{n}{\sqrt d} \sqrt{\Big(1-\frac1m\Big)\frac{(m+2)^2}{4(m+1)}} $$

    The rate of return is $m/(m+2)$, so the larger the batch, the longer a deviation lasts.
    """
    require_batch(batch, 3)
    rank = batch - 1
    return batch * math.sqrt((1 - 1 / rank) * (rank + 2) ** 2 / (4 * (rank + 1)) / width)


def one_layer_noise(phi: Nonlinearity, batch: int) -> float:
    r"""$E\|\xi\|_F^2 = E\|\phi(y)\|^4 - \|G_*\|_F^2$: $d$ times the mean square error of the Gram of $d$ units."""
    law = pair_law(phi, batch, centered=True)
    squares, others = phi(law.first).square(), phi(law.second).square()
    products = phi(law.first) * phi(law.second)
    fourth = batch * law.average(squares.square()) + batch * (batch - 1) * law.average(squares * others)
    return fourth - batch * law.average(squares) ** 2 - batch * (batch - 1) * law.average(products) ** 2


@source(
    "orthoscope",
    "derivative of the mean-field map at the Gram fixed point",
    assumes="infinite width, Gaussian weights, no bias, batch normalization with centering",
)
def gram_response(activation: Choice, batch: int, *, gain: int | float = 1.0) -> GramResponse:
    r"""The rates at which a small deviation of the Gram matrix returns.

    With $A = E\phi_1^2(y_1^2 - y_2^2)$, $B = E\phi_1\phi_2(y_1^2 - y_3^2)$ and $k$ as above,
    $\mu_1 = k(A - 2B)$, $s = k^2(A^2 + (2n-4)B^2)$ and $\mu_2 = 2k\,E\phi_1\phi_2(y_1y_2 - 2y_1y_3 + y_3y_4)$.
    The third and fourth coordinates are averaged out by $\sum y_i = 0$, $\sum y_i^2 = n$. Linear: both rates are
    $(n-1)/(n+1)$. With a rate above 1 (exp at $n=10$, GELU at $n=50$) depth leads away from the fixed point.
    """
    require_batch(batch, 4)
    phi = nonlinearity(activation, gain)
    law = pair_law(phi, batch, centered=True)
    y, z = law.first, law.second
    squares, products = phi(y).square(), phi(y) * phi(z)
    k = (batch - 1) / (2 * batch * contrast(phi, law))
    third_square = (batch - y.square() - z.square()) / (batch - 2)
    third = -(y + z) / (batch - 2)
    third_fourth = ((y + z).square() - (batch - y.square() - z.square())) / ((batch - 2) * (batch - 3))
    # y₁² and y₂² have the same average with φ₁φ₂; so have y₁y₃ and y₂y₃.
    diagonal = law.average(squares * (y.square() - z.square()))
    off = law.average(products * (y.square() - third_square))
    pair = law.average(products * (y * z - 2 * y * third + third_fourth))
    return GramResponse(k * (diagonal - 2 * off), k**2 * (diagonal**2 + (2 * batch - 4) * off**2), 2 * k * pair)


def _sampled_parts(
    phi: Nonlinearity, batch: int, draws: int, generator: torch.Generator
) -> tuple[Float[Tensor, " draws"], Float[Tensor, " draws"]]:
    r"""$\|v\|^2$ and $\|\Pi\|_F^2$ of single units."""
    gaussian = torch.randn(draws, batch, dtype=torch.float64, generator=generator)
    centered = gaussian - gaussian.mean(-1, keepdim=True)
    outputs = phi(centered / centered.square().mean(-1, keepdim=True).sqrt())
    contrast = outputs - outputs.mean(-1, keepdim=True)
    energy = contrast.square().sum(-1)
    uneven = (contrast.square() - energy[:, None] / batch).square().sum(-1)
    pairs = (batch - 2) / (batch - 1) * energy.square() - batch / (batch - 2) * uneven
    return (batch / (batch - 2)) ** 2 * uneven, pairs
