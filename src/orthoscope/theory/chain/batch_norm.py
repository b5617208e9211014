r"""The chain $H \leftarrow \mathrm{BN}(WH)/\sqrt d$: Gaussian weights, rows divided by their norm, no centering.

Given the singular values $\sigma$ of $H$, a row of $\mathrm{BN}(WH)$ is the unit vector $a$ with
$a_i = \sigma_i w_i / \|\sigma \odot w\|$, $w \sim \mathcal N(0, I)$, in the basis of right singular vectors, and
the next Gram matrix is the mean of $aa^\top$ over the $d$ rows. From this follow the singular values after one layer,
the orthogonality gap layer by layer, and its stationary value.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from orthoscope.theory.chain.spectrum import check_sizes, energy_shares
from orthoscope.theory.sources import source

# Step of the trapezoidal rule. For many equal values the integrand is analytic, without growth, in the strip
# |Im t| < π/2, so the rule errs by about exp(-π²/step) = 7e-18; for few values the strip is twice as wide.
STEP = 0.25
# Where the integrand is cut: e^-40 = 4e-18 of the whole.
NEGLIGIBLE = 40.0
# Spectra are taken in blocks of about 32 MB; a spectrum down to 1e-30 of its largest value has this many nodes.
BLOCK, NODES = 2**22, 1024


@source("daneshmand2021", "equation (15) (corrected index in (13))", assumes="Gaussian weights, one row, any width")
def mean_squared_singular_values(singular_values: Float[Tensor, "*batch samples"]) -> Float[Tensor, "*batch samples"]:
    r"""Mean spectrum of the next Gram matrix: what one layer makes of the shares of energy. Sums to 1.

    $$ p_i(\sigma) = \mathbb{E} \frac{\sigma_i^2 w_i^2}{\sum_j \sigma_j^2 w_j^2}
       = \int_0^\infty \frac{\lambda_i}{1+2\theta\lambda_i} \prod_j (1+2\theta\lambda_j)^{-1/2} \, d\theta
       = \frac12 \int_{-\infty}^\infty \varsigma(t + \mu_i)\,
         \exp\Big(-\frac12 \sum_j \log\big(1 + e^{t+\mu_j}\big)\Big) dt $$

    with $2\theta\lambda_{\max} = e^t$, $\mu_j = \log\lambda_j/\lambda_{\max}$ and the logistic $\varsigma$. In $t$ the
    integrand is smooth on the scale 1 whatever the spread of $\sigma$, so the trapezoidal rule converges
    exponentially: relative error below 1e-14, also for the smallest $p_i$. A zero singular value stays zero.
    """
    shares = energy_shares(singular_values)
    rows = shares.reshape(-1, shares.shape[-1])
    together = max(1, BLOCK // (NODES * rows.shape[-1]))
    return torch.cat([_mean_of_next(block) for block in rows.split(together)]).reshape(shares.shape)


def _mean_of_next(shares: Float[Tensor, "rows samples"]) -> Float[Tensor, "rows samples"]:
    exponents = (shares / shares.amax(-1, keepdim=True)).log()
    nodes = torch.arange(*_support(exponents), STEP, dtype=torch.float64)
    shifted = nodes[:, None] + exponents[:, None, :]
    decay = torch.exp(-softplus(shifted, threshold=NEGLIGIBLE).sum(-1) / 2)
    return STEP / 2 * torch.einsum("rti,rt->ri", torch.sigmoid(shifted), decay)


def _support(exponents: Float[Tensor, "rows samples"]) -> tuple[float, float]:
    r"""Where the integrands matter, relative to the smallest of their integrals.

    To the left they fall as $e^t$. To the right, past $t = -\mu_{\min}$, at least as $e^{-t/2}$; and with the $k$
    largest values alone, $e^t \prod_{j \le k} e^{-(t + \mu_k)/2}$ bounds them, which is earlier if $k \ge 3$ are large.
    """
    samples = exponents.shape[-1]
    edge = NEGLIGIBLE + math.log(samples)
    smallest = exponents.where(exponents.isfinite(), 0.0).amin(-1)
    right = 2 * edge - smallest
    if samples >= 3:
        number = torch.arange(3, samples + 1)
        ordered = exponents.sort(-1, descending=True).values[:, 2:]
        right = torch.minimum(right, ((edge - number * ordered / 2) / (number / 2 - 1)).amin(-1))
    return -edge, float(right.max())


@source("orthoscope", "second moment of the next Gram matrix", assumes="linear chain, Gaussian weights, any width")
def gap_squared_after_layer(singular_values: Float[Tensor, "*batch samples"], width: int) -> Float[Tensor, "*batch"]:
    r"""Exact mean of the squared gap one layer on: that of the mean spectrum, and the noise of $d$ rows.

    $$ \mathbb{E}[V^2 \mid \sigma] = \sum_i \Big(p_i - \frac1n\Big)^2 + \frac1d \Big(1 - \sum_i p_i^2\Big) $$

    because the Gram is a mean of $d$ independent $aa^\top$ with $\|aa^\top\|_F = 1$ and mean $\operatorname{diag}(p)$.
    """
    mean = mean_squared_singular_values(singular_values)
    check_sizes(mean.shape[-1])
    if width < 1:
        raise ValueError(f"width is {width}: give at least 1")
    return (mean - 1 / mean.shape[-1]).square().sum(-1) + (1 - mean.square().sum(-1)) / width


@source("orthoscope", "linearized layer", assumes="linear chain, Gaussian weights, nearly orthogonal samples")
def gap_contraction(batch: int) -> float:
    r"""What is left of a small deviation of the Gram from $I/n$ after one layer, in every direction: $n/(n+2)$.

    At $\sigma_i^2 = 1/n$: $\partial p_i/\partial\log\lambda_j = \delta_{ij}p_i - \mathbb{E}[a_i^2a_j^2]$ with
    $\mathbb{E}[a_i^2 a_j^2] = (1+2\delta_{ij})/(n(n+2))$; deviations have trace 0, and the rest is rotation.
    """
    check_sizes(batch)
    return batch / (batch + 2)


@source("orthoscope", "stationary noise of the chain", assumes="linear chain, Gaussian weights, width >> batch")
def stationary_gap_squared(batch: int, width: int) -> float:
    r"""Mean squared gap deep in the chain, where contraction by $n/(n+2)$ balances the noise $(1-1/n)/d$ of a layer.

    $$ \mathbb{E}[V^2] = \frac1d \cdot \frac{1 - 1/n}{1 - (n/(n+2))^2} = \frac{(1-1/n)(n+2)^2}{4(n+1)\,d} $$

    To leading order in $1/d$; measured, the next is about a relative $(n-2)/(2d)$ more.
    """
    check_sizes(batch, width)
    return (1 - 1 / batch) * (batch + 2) ** 2 / (4 * (batch + 1) * width)


@source("orthoscope", "stationary noise of the chain", assumes="linear chain, Gaussian weights, width >> batch")
def stationary_gap(batch: int, width: int) -> float:
    r"""Mean gap deep in the chain, its floor, which falls as $d^{-1/2}$.

    $$ \mathbb{E}[V] = \sqrt{\mathbb{E}[V^2]} \cdot \sqrt{\frac2m}\, \frac{\Gamma((m+1)/2)}{\Gamma(m/2)},
       \qquad m = \frac{(n-1)(n+2)}2 $$

    as for the length of a Gaussian vector: the noise is isotropic on the $m$-dimensional space of symmetric
    matrices of trace 0, since $aa^\top$ of a uniform $a$ is.
    """
    dimension = _dimension(batch)
    mean_over_rms = math.sqrt(2 / dimension) * math.exp(math.lgamma((dimension + 1) / 2) - math.lgamma(dimension / 2))
    return math.sqrt(stationary_gap_squared(batch, width)) * mean_over_rms


@source("orthoscope", "stationary noise of the chain", assumes="linear chain, Gaussian weights, width >> batch")
def stationary_log_gap(batch: int, width: int) -> float:
    r"""Mean log-gap deep in the chain: $\frac12\log\mathbb{E}[V^2] + \frac12(\Psi(m/2) - \log(m/2))$, $m$ as above."""
    half = _dimension(batch) / 2
    bias = float(torch.digamma(torch.tensor(half, dtype=torch.float64))) - math.log(half)
    return (math.log(stationary_gap_squared(batch, width)) + bias) / 2


def _dimension(batch: int) -> float:
    return (batch - 1) * (batch + 2) / 2


@source(
    "orthoscope",
    "mean field and linearized noise",
    assumes="linear chain, Gaussian weights; at finite width, width times the ratio of smallest to largest singular "
    "value well above 1",
)
def gap_trajectory(
    singular_values: Float[Tensor, "*batch samples"], depth: int, width: int | None = None
) -> Float[Tensor, "*batch layers"]:
    r"""Root mean square gap of the input and after each of `depth` layers, $\sqrt{v_\ell^2 + s_\ell}$.

    $$ \lambda_{\ell+1} = p(\sqrt{\lambda_\ell}), \quad v_\ell^2 = \sum_i (\lambda_{\ell,i} - 1/n)^2, \qquad
       s_{\ell+1} = \Big(\frac n{n+2}\Big)^2 s_\ell + \frac1d \Big(1 - \frac1n - v_{\ell+1}^2\Big), \quad s_0 = 0 $$

    $v$ is infinite width (`width=None`, then $s = 0$), where it is exact; $s$ is exact after one layer and, to leading
    order, after many. In between it uses the contraction near the end for all layers. A row of weights responds
    to the smallest direction of a nearly collapsed input with probability about $\sigma_n/\sigma_1$ only: with fewer
    rows than $\sigma_1/\sigma_n$ the chain stays at the start longer, which the mean field does not describe.
    """
    shares = energy_shares(singular_values)
    samples = shares.shape[-1]
    check_sizes(samples, width)
    if depth < 0:
        raise ValueError(f"depth is {depth}: give at least 0")
    contraction = gap_contraction(samples)
    squares = [_squared_gap(shares)]
    noise = torch.zeros_like(squares[0])
    for _ in range(depth):
        shares = mean_squared_singular_values(shares.sqrt())
        mean_field = _squared_gap(shares)
        if width is not None:
            noise = contraction**2 * noise + (1 - 1 / samples - mean_field) / width
        squares.append(mean_field + noise)
    return torch.stack(squares, -1).sqrt()


def _squared_gap(shares: Float[Tensor, "*batch samples"]) -> Float[Tensor, "*batch"]:
    return (shares - 1 / shares.shape[-1]).square().sum(-1)
