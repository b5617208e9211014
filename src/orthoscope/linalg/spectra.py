"""Eigenvalues and singular values in float64, many matrices at a time."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.frames import sample_frame
from orthoscope.linalg.parallel import over_cores


def singular_values(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rank"]:
    """All min(rows, columns) singular values, largest first, in float64.

    A matrix much longer than wide is first rotated into its own span, which keeps the values.
    """
    short = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    short = sample_frame(short) if short.shape[-1] > 2 * short.shape[-2] else short.double()
    if short.ndim == 2:
        return torch.linalg.svdvals(short)
    return over_cores(torch.linalg.svdvals, short.flatten(end_dim=-3)).unflatten(0, short.shape[:-2])


def gram_singular_values(gram: Float[Tensor, "*batch samples samples"]) -> Float[Tensor, "*batch samples"]:
    r"""Singular values of $H$ from $HH^\top$, largest first: half the cost of `singular_values`.

    Absolute error about $\sqrt\varepsilon\,\sigma_1$: right for entropies, ranks and norms, wrong for a determinant.
    """
    return torch.linalg.eigvalsh(gram).flip(-1).clamp_min(0).sqrt()
