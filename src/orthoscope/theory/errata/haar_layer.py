"""The layer of joudaki2024, chapter 6, and small inputs for it: units by samples."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import singular_values
from orthoscope.theory.haar.batch_norm import spectral_isometry_gap

Hidden = Float[Tensor, "*batch units samples"]


def batch_norm(hidden: Hidden) -> Hidden:
    """Every unit divided by its norm over the samples."""
    return hidden / hidden.norm(dim=-1, keepdim=True)


def spectrum(hidden: Hidden) -> Float[Tensor, "*batch units"]:
    """Eigenvalues of XXᵀ."""
    return singular_values(hidden).square()


def isometry_gap(hidden: Hidden) -> Float[Tensor, "*batch"]:
    return spectral_isometry_gap(spectrum(hidden))


def two_units(correlation: float) -> Float[Tensor, "2 2"]:
    """Two unit rows; the eigenvalues of XXᵀ are 1 ± correlation."""
    return torch.tensor([[1.0, 0.0], [correlation, (1 - correlation**2) ** 0.5]], dtype=torch.float64)


def random_input(generator: torch.Generator) -> Float[Tensor, "units units"]:
    width = int(torch.randint(2, 8, (), generator=generator))
    return torch.randn(width, width, generator=generator, dtype=torch.float64)
