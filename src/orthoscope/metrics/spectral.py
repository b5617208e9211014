"""What a list of singular values says by itself: ranks and norms, shared by representations and weights."""

import torch
from jaxtyping import Float
from torch import Tensor

Spectrum = Float[Tensor, "*batch values"]
Scalar = Float[Tensor, "*batch"]


def entropy_rank(singular_values: Spectrum) -> Scalar:
    r"""$\exp(-\sum_i p_i\log p_i)$ with $p_i=\sigma_i/\sum_j\sigma_j$ (Roy & Vetterli, 2007); nan if all are zero."""
    share = singular_values / singular_values.sum(-1, keepdim=True)
    return torch.special.entr(share).sum(-1).exp()


def energy_rank(singular_values: Spectrum) -> Scalar:
    r"""Stable rank $\sum_i\sigma_i^2/\sigma_1^2$; nan if all are zero."""
    return (singular_values / singular_values.amax(-1, keepdim=True)).square().sum(-1)


def counted_rank(singular_values: Spectrum, size: int, precision: torch.dtype) -> Scalar:
    r"""Eigenvalues of the Gram above rounding: $\#\{i : \sigma_i^2 > \text{size}\cdot\varepsilon\,\sigma_1^2\}$."""
    energies = singular_values.square()
    tolerance = size * torch.finfo(precision).eps * energies.amax(-1, keepdim=True)
    return (energies > tolerance).sum(-1).to(torch.float64)
