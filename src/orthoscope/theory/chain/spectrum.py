r"""Singular values along chains without a norm: energy shares and gap, iterative orthogonalization, rank collapse.

Iterative orthogonalization sets $W = V'\Sigma^{-1/2}U^\top/\|\Sigma^{1/2}\|_F$ for $H = U\Sigma V^\top$, and
`iterative_singular_values` follows $\Sigma$. Products of Gaussian matrices are networks without batch norm:
`lyapunov_exponents` and `collapse_rate` say how fast their singular values separate.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source


@source("daneshmand2021", "equation (10)", assumes="none")
def energy_shares(singular_values: Float[Tensor, "*batch values"]) -> Float[Tensor, "*batch values"]:
    r"""Share of the energy in each direction, $\lambda_i = \sigma_i^2/\sum_j\sigma_j^2$: the spectrum of the Gram.

    A share below the smallest float, of a $\sigma_i$ below 1e-162 of the largest, is 0.
    """
    values = singular_values.double()
    if values.numel() == 0 or not bool((values.isfinite() & (values >= 0)).all()):
        raise ValueError("singular values are finite, at least 0, and at least one: give svdvals of a representation")
    largest = values.amax(-1, keepdim=True)
    if bool((largest == 0).any()):
        raise ValueError("all singular values of a representation are 0: it has no direction")
    energies = (values / largest).square()
    return energies / energies.sum(-1, keepdim=True)


@source("daneshmand2021", "equation (2)", assumes="none")
def spectral_orthogonality_gap(
    singular_values: Float[Tensor, "*batch values"], samples: int | None = None
) -> Float[Tensor, "*batch"]:
    r"""Orthogonality gap of `samples` vectors ($n$, by default one per singular value); those left out are 0.

    $$ V^2 = \sum_{i=1}^{r} \Big(\lambda_i - \frac1n\Big)^2 + \frac{n - r}{n^2},
       \qquad \lambda_i = \frac{\sigma_i^2}{\sum_j \sigma_j^2} $$
    """
    shares = energy_shares(singular_values)
    values = shares.shape[-1]
    n = values if samples is None else samples
    if n < values:
        raise ValueError(f"{n} samples have at most {n} singular values, {values} were given")
    return ((shares - 1 / n).square().sum(-1) + (n - values) / n**2).sqrt()


def check_sizes(batch: int, width: int | None = None) -> None:
    """A gap needs two samples, and is reached only where the width lets them be orthogonal."""
    if batch < 2:
        raise ValueError(f"the orthogonality gap is about pairs of samples: batch is {batch}, give at least 2")
    if width is not None and width < batch:
        raise ValueError(
            f"{batch} samples cannot be orthogonal in {width} dimensions: give a width of at least {batch}"
        )


ASSUMES = "linear layers, V' truly orthogonal (not a slice of V), singular values counted up to the rank"


@source("daneshmand2021", "equation (6) (corrected)", assumes=ASSUMES)
def iterative_singular_values(
    singular_values: Float[Tensor, "*batch values"], steps: int
) -> Float[Tensor, "*batch values"]:
    r"""Singular values after `steps` layers, of norm 1: each layer takes their roots.

    $$ \sigma_i^{(k)} = \frac{\sigma_i^{2^{-k}}}{\big(\sum_j \sigma_j^{2\cdot 2^{-k}}\big)^{1/2}} $$
    """
    if steps < 0:
        raise ValueError(f"steps is {steps}: give at least 0")
    shares = energy_shares(singular_values)
    if bool((shares == 0).any()):
        raise ValueError("a singular value is 0 and has no inverse root: give those up to the rank, and the samples")
    # In logs: roots of roots tend to 1, and a power of the ratio to the largest cannot underflow.
    return torch.softmax(shares.log() * 0.5**steps, -1).sqrt()


@source("daneshmand2021", "Appendix E (corrected)", assumes=ASSUMES)
def iterative_gap(
    singular_values: Float[Tensor, "*batch values"], steps: int, samples: int | None = None
) -> Float[Tensor, "*batch"]:
    r"""Orthogonality gap after `steps` layers of iterative orthogonalization, by `iterative_singular_values`.

    After one layer it is

    $$ V(WH)^2 = \frac{\sum_i \sigma_i^2}{\big(\sum_i \sigma_i\big)^2} - \frac1n
       \;\le\; V(H)^2 = \frac{\sum_i \sigma_i^4}{\big(\sum_i \sigma_i^2\big)^2} - \frac1n, $$

    with equality only if the singular values are equal: by Hölder, $\sum\sigma^2 \le (\sum\sigma)^{2/3}
    (\sum\sigma^4)^{1/3}$. Near the end the part above the floor $1/r - 1/n$ of rank $r$ falls by 4 a layer.
    """
    return spectral_orthogonality_gap(iterative_singular_values(singular_values, steps), samples)


@source("newman1986", "Lyapunov spectrum", assumes="linear network, square Gaussian weights of one width, depth >> 1")
def lyapunov_exponents(width: int, weight_variance: float | None = None) -> Float[Tensor, "width"]:
    r"""Growth a layer of each singular value of $W_\ell\cdots W_1$, largest first.

    $$ \lim_\ell \frac1\ell \log\sigma_i = \frac12 \Big(\log 2 + \log v + \Psi\Big(\frac{d-i+1}2\Big)\Big),
       \qquad W_{jk} \sim \mathcal N(0, v) $$

    By default $v = 1/d$, and the energy of a layer is kept on average. Of $\log\sigma_i$, the usual convention: the
    exponents of $\log\sigma_i^2$ are twice these.

    Args:
        width: Units $d$ of every layer.
        weight_variance: $v$, by default $1/d$.
    """
    if width < 1:
        raise ValueError(f"width is {width}: give at least 1")
    variance = 1 / width if weight_variance is None else weight_variance
    if not 0 < variance < math.inf:
        raise ValueError(f"weight_variance is {variance}: give a positive number")
    freedoms = torch.arange(width, 0, -1, dtype=torch.float64)
    return (math.log(2) + math.log(variance) + torch.digamma(freedoms / 2)) / 2


@source(
    "joudaki2024",
    "equation (A.14), the δ of Lemma A.8 (corrected: (A.13) gives half of it)",
    assumes="linear network, square Gaussian weights, depth >> 1",
)
def collapse_rate(width: int) -> float:
    r"""Rate at which a linear network without normalization loses all directions but one, of any weight variance.

    $$ \delta = \Psi\Big(\frac d2\Big) - \Psi\Big(\frac{d-1}2\Big), \qquad
       \frac1\ell \log \frac{\sigma_2^2}{\sigma_1^2} \to -\delta, \qquad
       \frac1\ell \log \Big| V - \sqrt{\tfrac{n-1}n} \Big| \to -\delta $$

    about $1/d$ a layer. The second limit is the first: $|V - V_{\max}| \approx (\sigma_2/\sigma_1)^2/V_{\max}$.
    """
    if width < 2:
        raise ValueError(f"width is {width}: a second direction needs at least 2")
    exponents = lyapunov_exponents(width)
    return float(2 * (exponents[0] - exponents[1]))


@source("joudaki2024", "Lemma A.8", assumes="linear network, square Gaussian weights, depth to infinity")
def collapsed_gap(batch: int) -> float:
    r"""The gap of samples that are all one direction, the largest there is: $V_{\max} = \sqrt{(n-1)/n}$."""
    check_sizes(batch)
    return math.sqrt((batch - 1) / batch)
