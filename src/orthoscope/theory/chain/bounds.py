r"""Bounds on the orthogonality of the batch-norm chain: the theorems of daneshmand2021, with the proofs' constants.

$n$ samples (`batch`), width $d$, $\|H\|_F = 1$, and $\hat V = 1/n - \sigma_n^2$ (`weakest_gap`), the deficit of the
weakest direction. A1 asks for a lower bound $\alpha$ of $\sigma_n^2$ (`weakest_energy`), the square, in layers 1, 2,
...; the squared singular values sum to 1, so $\alpha \le 1/n$ is not an absolute constant.

The last four functions are about the Wasserstein-2 distance of $WH$, with $W$ of size $d \times d$ and entries
$\mathcal N(0, 1/d)$, from the Gaussian matrix $G/\sqrt n$ with independent entries $\mathcal N(0, 1/(nd))$.
"""

import math

from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import mean_squared_singular_values, stationary_gap_squared
from orthoscope.theory.chain.spectrum import check_sizes, energy_shares
from orthoscope.theory.sources import source

CHAIN = "linear chain, batch norm without centering, Gaussian weights, batch <= width"
INDEPENDENT = f"{CHAIN}; smallest squared singular value at least weakest_energy in every layer before (A1)"


@source("daneshmand2021", "Lemma 4", assumes="Frobenius norm 1")
def gap_bound_of_weakest(weakest_gap: Float[Tensor, "*cases"], batch: int) -> Float[Tensor, "*cases"]:
    r"""$V \le \sqrt{n(n-1)}\,\hat V$, equal when the rest is in one direction; at most the printed $2n\hat V$."""
    check_sizes(batch)
    return math.sqrt(batch * (batch - 1)) * weakest_gap


@source("daneshmand2021", "Lemma 6", assumes=CHAIN)
def gram_variance(singular_values: Float[Tensor, "*cases samples"], width: int) -> Float[Tensor, "*cases"]:
    r"""Mean squared distance of the next Gram matrix from its mean, exactly, where the lemma has $1/d$.

    $$ \mathbb{E}\|C - \mathbb{E}C\|_F^2 = \frac1d \Big(1 - \sum_i p_i(\sigma)^2\Big) \le \frac{1 - 1/n}d $$

    Lemma 7: it also bounds the mean squared distance of the next $\hat V$ from $1/n - p_n(\sigma)$.
    """
    mean = mean_squared_singular_values(singular_values)
    check_sizes(mean.shape[-1], width)
    return (1 - mean.square().sum(-1)) / width


@source("daneshmand2021", "proof of Lemma 8", assumes="Frobenius norm 1")
def mean_field_weakest_gap_bound(weakest_gap: Float[Tensor, "*cases"], batch: int) -> Float[Tensor, "*cases"]:
    r"""Bound of $1/n - p_n(\sigma)$, the next $\hat V$ at infinite width; the lemma has 2/3 for $2n/(n+2) \ge 1$.

    $$ \frac1n - p_n(\sigma) \le \Big(1 - \frac{2n}{n+2}\Big(\frac1n - \hat V\Big)\Big) \hat V $$
    """
    check_sizes(batch)
    return (1 - 2 * batch / (batch + 2) * (1 / batch - weakest_gap)) * weakest_gap


@source("daneshmand2021", "Theorem 5, with the constants of its proof", assumes=CHAIN)
def weakest_gap_bound(weakest_gap: Float[Tensor, "*cases"], batch: int, width: int) -> Float[Tensor, "*cases"]:
    r"""Bound of the mean of $\hat V$ one layer on; the theorem has 2/3 for $2n/(n+2)$ and 1 for $1 - 1/n$.

    $$ \mathbb{E}[\hat V(H_{\ell+1}) \mid H_\ell]
       \le \Big(1 - \frac{2n}{n+2}\Big(\frac1n - \hat V\Big)\Big) \hat V + \sqrt{\frac{1 - 1/n}d} $$
    """
    check_sizes(batch, width)
    return mean_field_weakest_gap_bound(weakest_gap, batch) + math.sqrt((1 - 1 / batch) / width)


@source("daneshmand2021", "Theorem 1 (corrected)", assumes=INDEPENDENT)
def expected_gap_bound(batch: int, width: int, depth: int, weakest_energy: float) -> float:
    r"""The theorem with A1 on $\sigma_n^2 \ge \alpha$: an upper bound of $\mathbb{E}[V(H_\ell)]$ at `depth` $\ell$.

    $$ 2 \Big(1 - \frac23\alpha\Big)^{\ell-1} + \frac{3n}{\alpha\sqrt d}, \qquad \ell \ge 1 $$

    It says something, that is less than 1, only if $d > 9n^4$, since $\alpha \le 1/n$.
    """
    _check_layer(batch, width, depth, weakest_energy)
    return 2 * (1 - 2 * weakest_energy / 3) ** (depth - 1) + 3 * batch / (weakest_energy * math.sqrt(width))


@source("orthoscope", "Theorem 1 of daneshmand2021 with the constants of its proof", assumes=INDEPENDENT)
def sharp_expected_gap_bound(batch: int, width: int, depth: int, weakest_energy: float) -> float:
    r"""The bound of $\mathbb{E}[V(H_\ell)]$ at `depth` $\ell$ that Lemma 4 and Theorem 5 give without rounding up.

    $$ \sqrt{\frac{n-1}n}\, q^{\ell-1} + \frac{n-1}{\sqrt d} \cdot \frac{1 - q^{\ell-1}}{1 - q},
       \qquad q = 1 - \frac{2n}{n+2}\alpha, \quad \ell \ge 1 $$

    With the largest possible $\alpha = 1/n$, $q = n/(n+2)$: the true contraction of a small gap.
    """
    _check_layer(batch, width, depth, weakest_energy)
    contraction = 1 - 2 * batch / (batch + 2) * weakest_energy
    left = contraction ** (depth - 1)
    return math.sqrt((batch - 1) / batch) * left + (batch - 1) / math.sqrt(width) * (1 - left) / (1 - contraction)


@source("daneshmand2021", "Appendix B.1", assumes=CHAIN)
def average_instability_bound(width: int, depth: int, weakest_gap: float) -> float:
    r"""Without A1, a bound of $\frac1\ell \sum_{k=0}^{\ell-1} \mathbb{E}[\hat V(H_k)(\frac1n - \hat V(H_k))]$.

    $$ \frac{3 \hat V(H_0)}{2\ell} + \frac3{2\sqrt d} $$

    So on average the chain is near orthogonal or near collapsed; with `weakest_gap` $= \hat V(H_0)$, $\|H_0\|_F = 1$.
    """
    if width < 1 or depth < 1:
        raise ValueError(f"width is {width} and depth {depth}: give at least 1 of each")
    return 3 * weakest_gap / (2 * depth) + 3 / (2 * math.sqrt(width))


def _check_layer(batch: int, width: int, depth: int, weakest_energy: float) -> None:
    check_sizes(batch, width)
    if depth < 1:
        raise ValueError(f"depth is {depth}: the chain is bounded from its first layer on, give at least 1")
    if not 0 < weakest_energy <= 1 / batch:
        raise ValueError(
            f"weakest_energy is {weakest_energy}: the smallest of {batch} squared singular values that sum to 1 is "
            f"positive and at most 1/{batch}"
        )


@source("daneshmand2021", "proof of Lemma 2, an equality", assumes="Gaussian weights, fixed H of Frobenius norm 1")
def wasserstein_to_gaussian(singular_values: Float[Tensor, "*batch samples"]) -> Float[Tensor, "*batch"]:
    r"""Exact distance for one $H$, by its singular values (scaled to norm 1).

    $$ \mathcal W_2^2\big(WH, G/\sqrt n\big) = \sum_i \Big(\sigma_i - \frac1{\sqrt n}\Big)^2 $$

    Both are centered Gaussians with commuting covariances, and the coupling of the proof is the optimal one. For
    a random $H$, the root mean square of this is an upper bound.
    """
    shares = energy_shares(singular_values)
    return (shares.sqrt() - shares.shape[-1] ** -0.5).norm(dim=-1)


@source("daneshmand2021", "Lemma 2, before the last two steps of its proof", assumes="Gaussian weights, norm 1")
def wasserstein_bound_of_gap(rms_gap: Float[Tensor, "*cases"], batch: int) -> Float[Tensor, "*cases"]:
    r"""Bound by the gap: $\mathcal W_2 \le \sqrt{n\,\mathbb{E}[V^2]}$, of the root mean square gap.

    The lemma goes on to $\sqrt{2n\,\mathbb{E}V}$, which loses the order: $\sqrt V$ for $V$. Near orthogonality the
    distance is half of the bound, and never less than $V/(1 + 1/\sqrt n)$.

    Args:
        rms_gap: Root mean square of the orthogonality gap.
        batch: Number of samples $n$.
    """
    check_sizes(batch)
    return math.sqrt(batch) * rms_gap


@source("daneshmand2021", "Corollary 3 (corrected)", assumes=INDEPENDENT)
def wasserstein_bound(batch: int, width: int, depth: int, weakest_energy: float) -> float:
    r"""Bound at `depth` $\ell$, of the distance itself: its radius falls as $d^{-1/4}$.

    $$ \mathcal W_2 \le \sqrt{2n\,\mathbb{E}[V(H_\ell)]}
       \le \sqrt{4n \Big(1 - \frac23\alpha\Big)^{\ell-1} + \frac{6n^2}{\alpha\sqrt d}} $$
    """
    return math.sqrt(2 * batch * expected_gap_bound(batch, width, depth, weakest_energy))


@source("orthoscope", "stationary noise of the chain", assumes="linear chain, Gaussian weights, width >> batch")
def stationary_wasserstein(batch: int, width: int) -> float:
    r"""Root mean square over $H$ of the distance deep in the chain, $\frac12\sqrt{n\,\mathbb{E}[V^2]}$: as $d^{-1/2}$.

    There $\sigma_i - 1/\sqrt n = (\sigma_i^2 - 1/n)/(\sigma_i + 1/\sqrt n) \approx \frac{\sqrt n}2(\sigma_i^2 - 1/n)$.
    """
    return math.sqrt(batch * stationary_gap_squared(batch, width)) / 2
