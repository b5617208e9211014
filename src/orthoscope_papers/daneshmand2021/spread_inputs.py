r"""Samples whose squared singular values have two sizes, and the batch-norm chain of infinite width from them.

Half of the $n$ squared singular values are $(1+s)/n$, the others $(1-s)/n$: $s$ is the `spread`.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.chain.batch_norm import mean_squared_singular_values

# So wide that the chain is its mean field, and that no bound has a term left that falls with the width.
ENORMOUS = 10**60


def spread_values(batch: int, spread: float) -> Float[Tensor, "samples"]:
    """Return the singular values, of norm 1; an odd batch has one more of the smaller."""
    larger = batch // 2
    energies = torch.full((batch,), 1 - spread, dtype=torch.float64)
    energies[:larger] = 1 + spread
    return (energies / energies.sum()).sqrt()


def spread_input(batch: int, width: int, spread: float) -> Float[Tensor, "samples units"]:
    """Return orthogonal samples of these lengths."""
    samples = torch.zeros(batch, width, dtype=torch.float64)
    samples[:, :batch] = torch.diag(spread_values(batch, spread))
    return samples


def infinitely_wide(values: Float[Tensor, "samples"], last: int, every: int) -> Iterator[tuple[int, Tensor]]:
    """Yield layers and their exact singular values, from layer 1, which has the given ones, to `last`."""
    for layer in range(1, last + 1):
        if layer % every == 1 % every or layer == last:
            yield layer, values
        values = mean_squared_singular_values(values).sqrt()
