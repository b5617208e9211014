"""Random inputs for batch norm with Haar weights: units by samples, from isometric to almost dependent."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import haar, singular_values


def batch_norm(hidden: Float[Tensor, "*batch units samples"]) -> Float[Tensor, "*batch units samples"]:
    """Every unit divided by its norm over the samples, as in joudaki2024 (6.4)."""
    return hidden / hidden.norm(dim=-1, keepdim=True)


def layer(
    hidden: Float[Tensor, "*batch units samples"], generator: torch.Generator
) -> Float[Tensor, "*batch units samples"]:
    """BN(WX), each matrix with its own Haar weights."""
    *batch, units, _ = hidden.shape
    return batch_norm(haar(units, units, *batch, generator=generator, dtype=torch.float64) @ hidden)


def spectrum_of(hidden: Float[Tensor, "*batch units samples"]) -> Float[Tensor, "*batch units"]:
    return singular_values(hidden).square()


def random_inputs(width: int, count: int, generator: torch.Generator) -> Float[Tensor, "count width width"]:
    """Square inputs whose log singular values spread by 1e-4 … 3."""
    spread = 10 ** (torch.rand(count, 1, generator=generator, dtype=torch.float64) * 4.5 - 4)
    sigma = torch.exp(torch.randn(count, width, generator=generator, dtype=torch.float64) * spread)
    left, right = haar(width, width, 2, count, generator=generator, dtype=torch.float64)
    return left @ (sigma.unsqueeze(-1) * right)


def normalized_inputs(width: int, count: int, generator: torch.Generator) -> Float[Tensor, "count width width"]:
    return batch_norm(random_inputs(width, count, generator))


def random_spectra(width: int, count: int, generator: torch.Generator) -> Float[Tensor, "count width"]:
    """Positive eigenvalues with sum `width`; every tenth has one eigenvalue below equal others, the extreme case."""
    spread = 10 ** (torch.rand(count, 1, generator=generator, dtype=torch.float64) * 5 - 4)
    eigenvalues = torch.exp(torch.randn(count, width, generator=generator, dtype=torch.float64) * spread)
    eigenvalues = eigenvalues * width / eigenvalues.sum(-1, keepdim=True)
    low = eigenvalues[::10].amin(-1, keepdim=True)
    eigenvalues[::10] = torch.cat([low, ((width - low) / (width - 1)).expand(-1, width - 1)], dim=-1)
    return eigenvalues
