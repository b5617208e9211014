r"""Weights $W = V'\Sigma^{-1/2}U^\top/\|\Sigma^{1/2}\|_F$ from $H = U\Sigma V^\top$: what becomes of $\Sigma$."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.spectrum import energy_shares, spectral_orthogonality_gap
from orthoscope.theory.sources import source

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
    r"""Orthogonality gap after `steps` layers of iterative orthogonalisation; after one,

    $$ V(WH)^2 = \frac{\sum_i \sigma_i^2}{\big(\sum_i \sigma_i\big)^2} - \frac1n
       \;\le\; V(H)^2 = \frac{\sum_i \sigma_i^4}{\big(\sum_i \sigma_i^2\big)^2} - \frac1n, $$

    with equality only if the singular values are equal: by Hölder, $\sum\sigma^2 \le (\sum\sigma)^{2/3}
    (\sum\sigma^4)^{1/3}$. Near the end the part above the floor $1/r - 1/n$ of rank $r$ falls by 4 a layer.
    """
    return spectral_orthogonality_gap(iterative_singular_values(singular_values, steps), samples)
