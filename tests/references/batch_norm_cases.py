"""The batch-norm chain by its definition, and cases to try its theory on."""

import torch
from jaxtyping import Float
from torch import Tensor

Spectra = Float[Tensor, "cases samples"]
Grams = Float[Tensor, "*cases samples samples"]


def layer(hidden: Float[Tensor, "*cases units samples"], generator: torch.Generator) -> Tensor:
    """BN(WH)/√d, equation (1) of daneshmand2021, with all d x d weights."""
    units = hidden.shape[-2]
    weight = torch.randn(*hidden.shape[:-2], units, units, generator=generator, dtype=torch.float64) / units**0.5
    mixed = weight @ hidden
    return mixed / mixed.norm(dim=-1, keepdim=True) / units**0.5


def next_gram(gram: Grams, width: int, generator: torch.Generator) -> Grams:
    """A draw of the next Gram given this one: the rows of WH are independent Gaussians of this covariance."""
    root = torch.linalg.cholesky(gram)
    rows = torch.randn(*gram.shape[:-2], width, gram.shape[-1], generator=generator, dtype=torch.float64) @ root.mT
    unit = rows / rows.norm(dim=-1, keepdim=True)
    return unit.mT @ unit / width


def gap_of_gram(gram: Grams) -> Float[Tensor, "*cases"]:
    samples = gram.shape[-1]
    return (gram - torch.eye(samples, dtype=torch.float64) / samples).norm(dim=(-2, -1))


def random_spectra(cases: int, samples: int, generator: torch.Generator) -> Spectra:
    """Singular values of norm 1, a quarter each: of Gaussian matrices, uniform, nearly equal, spread over 1e-6 to 1."""
    quarter = cases // 4
    gaussian = torch.randn(quarter, 2 * samples, samples, generator=generator, dtype=torch.float64)
    uniform = torch.rand(quarter, samples, generator=generator, dtype=torch.float64)
    noise = torch.randn(quarter, samples, generator=generator, dtype=torch.float64)
    spread = torch.rand(cases - 3 * quarter, samples, generator=generator, dtype=torch.float64)
    values = torch.cat([torch.linalg.svdvals(gaussian), uniform, (0.01 * noise).exp(), 10 ** (-6 * spread)])
    return values / values.norm(dim=-1, keepdim=True)


def mean_and_error(draws: Float[Tensor, "draws *rest"]) -> tuple[Float[Tensor, "*rest"], Float[Tensor, "*rest"]]:
    return draws.mean(0), draws.std(0) / len(draws) ** 0.5
