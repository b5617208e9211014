"""The orthogonality gap of a batch-norm chain layer by layer, from the singular values of its input."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import gap_contraction, mean_squared_singular_values
from orthoscope.theory.chain.spectrum import check_sizes, energy_shares
from orthoscope.theory.sources import source


@source(
    "orthoscope",
    "mean field and linearised noise",
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
    order, after many. In between it takes the contraction near the end for that of the whole way. A row of weights
    sees the smallest direction of a nearly collapsed input with probability about $\sigma_n/\sigma_1$ only: with fewer
    rows than $\sigma_1/\sigma_n$ the chain lingers at the start, which the mean field cannot tell.
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
