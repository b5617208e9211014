r"""How Gaussian a layer of the batch-norm chain is: Wasserstein-2 distance of $WH$ from a Gaussian matrix.

$W$ is $d \times d$ with entries $\mathcal N(0, 1/d)$, $H$ is $d \times n$ with $\|H\|_F = 1$, and the target
$G/\sqrt n$ has independent entries $\mathcal N(0, 1/(nd))$.
"""

import math

from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import stationary_gap_squared
from orthoscope.theory.chain.bounds import INDEPENDENT, expected_gap_bound
from orthoscope.theory.chain.spectrum import check_sizes, energy_shares
from orthoscope.theory.sources import source


@source("daneshmand2021", "proof of Lemma 2, an equality", assumes="Gaussian weights, fixed H of Frobenius norm 1")
def wasserstein_to_gaussian(singular_values: Float[Tensor, "*batch samples"]) -> Float[Tensor, "*batch"]:
    r"""Exact distance for one $H$, by its singular values (scaled to norm 1).

    $$ \mathcal W_2^2\big(WH, G/\sqrt n\big) = \sum_i \Big(\sigma_i - \frac1{\sqrt n}\Big)^2 $$

    Both are centred Gaussians with commuting covariances, and the coupling of the proof is the optimal one. For
    a random $H$, the root mean square of this is an upper bound.
    """
    shares = energy_shares(singular_values)
    return (shares.sqrt() - shares.shape[-1] ** -0.5).norm(dim=-1)


@source("daneshmand2021", "Lemma 2, before the last two steps of its proof", assumes="Gaussian weights, norm 1")
def wasserstein_bound_of_gap(rms_gap: Float[Tensor, "*cases"], batch: int) -> Float[Tensor, "*cases"]:
    r"""Bound by the gap: $\mathcal W_2 \le \sqrt{n\,\mathbb{E}[V^2]}$, of the root mean square gap.

    The lemma goes on to $\sqrt{2n\,\mathbb{E}V}$, which loses the order: $\sqrt V$ for $V$. Near orthogonality the
    distance is half of the bound, and never less than $V/(1 + 1/\sqrt n)$.
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
