r"""Products of Gaussian matrices, the network without batch norm: how fast its singular values part."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.spectrum import check_sizes
from orthoscope.theory.sources import source


@source("newman1986", "Lyapunov spectrum", assumes="linear network, square Gaussian weights of one width, depth >> 1")
def lyapunov_exponents(width: int, weight_variance: float | None = None) -> Float[Tensor, "width"]:
    r"""Growth a layer of each singular value of $W_\ell\cdots W_1$, largest first.

    $$ \lim_\ell \frac1\ell \log\sigma_i = \frac12 \Big(\log 2 + \log v + \Psi\Big(\frac{d-i+1}2\Big)\Big),
       \qquad W_{jk} \sim \mathcal N(0, v) $$

    By default $v = 1/d$, and the energy of a layer is kept on average. Of $\log\sigma_i$, the usual convention: the
    exponents of $\log\sigma_i^2$ are twice these.
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
    r"""Rate at which a linear network without normalisation loses all directions but one, of any weight variance.

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
