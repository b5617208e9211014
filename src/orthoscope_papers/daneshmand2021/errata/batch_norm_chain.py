"""The batch-norm chain of daneshmand2021 by its singular values: spectra, sampled layers, means over draws."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope_papers.errata import Statement

Spectrum = Float[Tensor, "samples"]
Draws = Float[Tensor, "draws"]

ERRORS = 5.0  # standard errors that a sampled mean may be off


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
    """Gram matrices of BN(WH) over the width, `(draws, samples, samples)`."""
    rows = unit_rows(values, (draws, width), generator)
    return rows.mT @ rows / width


def mean_is(draws: Draws, expected: float) -> Statement:
    """The sampled mean equals `expected`, up to its standard error."""
    return Statement(float(draws.mean()), "=", expected, ERRORS * _standard_error(draws))


def mean_at_most(draws: Draws, bound: float) -> Statement:
    """The sampled mean is at most `bound`, up to its standard error."""
    return Statement(float(draws.mean()), "<=", bound, ERRORS * _standard_error(draws))


def _standard_error(draws: Draws) -> float:
    return float(draws.std()) / len(draws) ** 0.5
