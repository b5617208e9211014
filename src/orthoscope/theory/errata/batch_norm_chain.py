"""Draws of the batch-norm chain of daneshmand2021, for the errata that need a sampled expectation."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.errata.record import Comparison

Spectrum = Float[Tensor, "samples"]
Draws = Float[Tensor, "draws"]

# Standard errors that a sampled mean may be off.
ERRORS = 5.0


def spectrum(*energies: float) -> Spectrum:
    """Singular values of norm 1 whose squares are in these proportions."""
    values = torch.tensor(energies, dtype=torch.float64).sqrt()
    return values / values.norm()


def random_spectrum(generator: torch.Generator, least: float = 0.05) -> Spectrum:
    """Two to eight singular values of norm 1, none below `least` of the largest possible."""
    samples = int(torch.randint(2, 9, (), generator=generator))
    values = least + (1 - least) * torch.rand(samples, generator=generator, dtype=torch.float64)
    return values / values.norm()


def unit_rows(values: Spectrum, shape: tuple[int, ...], generator: torch.Generator) -> Float[Tensor, "*shape samples"]:
    """Rows of BN(WH), in the basis of the right singular vectors of H."""
    rows = values * torch.randn(*shape, len(values), generator=generator, dtype=torch.float64)
    return rows / rows.norm(dim=-1, keepdim=True)


def next_grams(values: Spectrum, width: int, draws: int, generator: torch.Generator) -> Tensor:
    rows = unit_rows(values, (draws, width), generator)
    return rows.mT @ rows / width


def mean_is(draws: Draws, expected: float) -> Comparison:
    """The sampled mean equals this, up to its standard error."""
    error = float(draws.std()) / len(draws) ** 0.5
    return Comparison(float(draws.mean()), "=", expected, ERRORS * error)


def mean_at_most(draws: Draws, bound: float) -> Comparison:
    error = float(draws.std()) / len(draws) ** 0.5
    return Comparison(float(draws.mean()), "<=", bound, ERRORS * error)
