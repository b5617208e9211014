r"""From a Gram matrix $G = HH^\top$, or a list of singular values, to one number: ranks, gaps and mean cosines.

Shared by the metrics of representations and of weights.
"""

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


Gram = Float[Tensor, "*batch samples samples"]


def gap(gram: Gram, samples: int | None = None) -> Scalar:
    r"""$\| G/\operatorname{tr}G - I/n \|_F$; with `samples` $n$ larger than the matrix, as if padded with zeros.

    The zeros are the eigenvalues that $HH^\top$ has and the smaller $H^\top H$ has not; each adds $1/n^2$.
    """
    size = gram.shape[-1]
    samples = samples or size
    share = gram / _trace(gram)[..., None, None]
    share = share - torch.eye(size, dtype=gram.dtype, device=gram.device) / samples
    deviation = torch.linalg.matrix_norm(share)
    return deviation if samples <= size else (deviation.square() + (samples - size) / samples**2).sqrt()


def cosines(gram: Gram) -> tuple[Gram, Tensor]:
    """Cosines of all pairs, at most 1 in size, and a mask of the pairs of two different, non-zero samples."""
    norms = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt().unsqueeze(-1)
    alive = norms > 0
    scale = torch.where(alive, norms, 1.0)
    different = ~torch.eye(gram.shape[-1], dtype=torch.bool, device=gram.device)
    return (gram / scale / scale.mT).clamp(-1, 1), alive & alive.mT & different


def overlap(gram: Gram) -> Scalar:
    r"""Mean cosine over pairs of the $m$ samples that are not zero.

    $$ \frac{u^\top G u - m}{m(m-1)}, \qquad u_i = 1/\sqrt{G_{ii}} $$
    """
    norms = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    inverse = torch.where(norms > 0, 1 / norms, 0.0)
    count = (norms > 0).sum(-1)
    total = (inverse.unsqueeze(-2) @ gram @ inverse.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    return torch.where(count > 1, (total - count) / (count * (count - 1)), torch.nan)


def absolute_overlap(gram: Gram) -> Scalar:
    """Mean size of the cosine over pairs; nan without a pair."""
    values, pairs = cosines(gram)
    return (values.abs() * pairs).sum((-2, -1)) / pairs.sum((-2, -1))


def potential(gram: Gram) -> Scalar:
    r"""$\max |c|/(1-|c|)$ over pairs; nan without a pair, infinite for parallel samples.

    A cosine is known to a few units of rounding: what is closer to 1 than that is 1.
    """
    values, pairs = cosines(gram)
    worst = (values.abs() * pairs).amax((-2, -1))
    apart = torch.where(1 - worst > 16 * torch.finfo(worst.dtype).eps, 1 - worst, 0.0)
    return torch.where(pairs.any(-1).any(-1), worst / apart, torch.nan)


def mean_share(gram: Gram) -> Scalar:
    r"""Energy of the batch mean over all energy, $\mathbf{1}^\top G\mathbf{1}/(n\operatorname{tr}G)$."""
    return gram.sum((-2, -1)) / (gram.shape[-1] * _trace(gram))


def _trace(gram: Gram) -> Scalar:
    return gram.diagonal(dim1=-2, dim2=-1).sum(-1)
