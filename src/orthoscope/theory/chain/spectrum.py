r"""A representation seen through its singular values: the shares $\lambda_i$ of the energy, and the gap they leave."""

from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source


@source("daneshmand2021", "equation (10)", assumes="none")
def energy_shares(singular_values: Float[Tensor, "*batch values"]) -> Float[Tensor, "*batch values"]:
    r"""Share of the energy in each direction, $\lambda_i = \sigma_i^2/\sum_j\sigma_j^2$: the spectrum of the Gram.

    A share below the smallest float, of a $\sigma_i$ below 1e-162 of the largest, is 0: tell it by its $\sigma_i$.
    """
    values = singular_values.double()
    if values.numel() == 0 or not bool((values.isfinite() & (values >= 0)).all()):
        raise ValueError("singular values are finite, at least 0, and at least one: give svdvals of a representation")
    largest = values.amax(-1, keepdim=True)
    if bool((largest == 0).any()):
        raise ValueError("all singular values of a representation are 0: it has no direction to speak of")
    energies = (values / largest).square()
    return energies / energies.sum(-1, keepdim=True)


@source("daneshmand2021", "equation (2)", assumes="none")
def spectral_orthogonality_gap(
    singular_values: Float[Tensor, "*batch values"], samples: int | None = None
) -> Float[Tensor, "*batch"]:
    r"""Orthogonality gap of `samples` vectors ($n$, by default one per singular value); those left out are 0.

    $$ V^2 = \sum_{i=1}^{r} \Big(\lambda_i - \frac1n\Big)^2 + \frac{n - r}{n^2},
       \qquad \lambda_i = \frac{\sigma_i^2}{\sum_j \sigma_j^2} $$
    """
    shares = energy_shares(singular_values)
    values = shares.shape[-1]
    n = values if samples is None else samples
    if n < values:
        raise ValueError(f"{n} samples have at most {n} singular values, {values} were given")
    return ((shares - 1 / n).square().sum(-1) + (n - values) / n**2).sqrt()


def check_sizes(batch: int, width: int | None = None) -> None:
    """A gap needs two samples, and is reached only where the width lets them be orthogonal."""
    if batch < 2:
        raise ValueError(f"the orthogonality gap is about pairs of samples: batch is {batch}, give at least 2")
    if width is not None and width < batch:
        raise ValueError(
            f"{batch} samples cannot be orthogonal in {width} dimensions: give a width of at least {batch}"
        )
