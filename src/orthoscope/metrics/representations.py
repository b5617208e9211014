r"""How well a layer keeps the samples of a batch apart: from $H$, `(samples, units)`, to one number.

Every function batches over leading dimensions and reduces in float64. With `centered=True` the batch
mean is subtracted first: ReLU layers have a large common mean, which can mask or mimic rank collapse.
All are unchanged by rotation and by scale, and undefined (nan) for a batch that is zero.

The second half takes the Gram matrix $G = HH^\top$ or the singular values, which probe and watcher have already.
`Representation` holds what a diagnosis measures of a layer: a metric is added there and in `metrics_of_factors`.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import contrasts, gram_factor, gram_singular_values, singular_values, triangle_condition

Hidden = Float[Tensor, "*batch samples units"]
Spectrum = Float[Tensor, "*batch values"]
Scalar = Float[Tensor, "*batch"]
Gram = Float[Tensor, "*batch samples samples"]

# Condition number from which float64 cannot distinguish a small singular value from rounding.
RANK_DEFICIENT = 1e14

# Condition number and growth of the pivots up to which a determinant by elimination is as good as one by rotations:
# together they cost at most five of sixteen digits, and pivots of matrices without structure grow to n^(2/3).
_WELL_CONDITIONED = 1e3
_LARGEST_GROWTH = 100.0


@dataclass(frozen=True)
class Representation:
    """Metrics of samples, or of tokens; nan where undefined.

    Attributes:
        gap: Orthogonality gap.
        isometry_gap: Isometry gap; infinite if the samples are linearly dependent.
        effective_rank: Effective rank.
        stable_rank: Stable rank.
        numerical_rank: Numerical rank in float32.
        overlap: Mean cosine of two samples.
        mean_energy: Share of the energy in the mean of the batch.
        length_spread: Coefficient of variation of the samples' lengths.
    """

    gap: float
    isometry_gap: float
    effective_rank: float
    stable_rank: float
    numerical_rank: float
    overlap: float
    mean_energy: float
    length_spread: float


def metrics_of_factors(factors: Gram) -> Float[Tensor, "*batch metrics"]:
    r"""The fields of `Representation`, in their order, of samples with the triangular factor $FF^\top = HH^\top$."""
    # Scaled first: squares of tiny activations would underflow.
    factors = factors / factors.abs().amax((-2, -1), keepdim=True)
    gram = factors @ factors.mT
    spectrum = gram_singular_values(gram)
    columns = {
        "gap": gram_gap(gram),
        "isometry_gap": factor_isometry_gap(factors),
        "effective_rank": entropy_rank(spectrum),
        "stable_rank": energy_rank(spectrum),
        "numerical_rank": counted_rank(spectrum, factors.shape[-1], torch.float32),
        "overlap": gram_overlap(gram),
        "mean_energy": gram_mean_energy(gram),
        "length_spread": length_spread(factors),
    }
    return torch.stack([columns[name] for name in Representation.__dataclass_fields__], dim=-1)


def orthogonality_gap(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""Distance of the samples from an orthogonal frame of equal lengths: 0 is perfect.

    $$ V(H) = \Big\| \frac{HH^\top}{\|H\|_F^2} - \frac{I_n}{n} \Big\|_F $$

    At most $\sqrt{(n-1)/n}$, when all samples are one direction. With more samples than units 0 is out of
    reach: at least $\sqrt{1/d-1/n}$. Centered: of the $n-1$ contrasts.
    """
    rows = _rows(hidden, centered)
    samples, units = rows.shape[-2:]
    side = rows if samples <= units else rows.mT
    return gram_gap(side @ side.mT, samples)


def smallest_direction_gap(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""What the weakest direction lacks, $\hat V(H) = 1/n - \sigma_n(H)^2/\|H\|_F^2$; $V \le \sqrt{n(n-1)}\,\hat V$."""
    rows = _rows(hidden, centered)
    samples, units = rows.shape[-2:]
    energies = singular_values(rows).square()
    smallest = energies[..., -1] / energies.sum(-1) if samples <= units else energies[..., -1] * 0
    return 1 / samples - smallest


def isometry_gap(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""Log-ratio of arithmetic to geometric mean of the squared singular values; 0 is perfect.

    $$ \psi(H) = \log \tfrac1n \operatorname{tr} HH^\top - \tfrac1n \log\det HH^\top
               = \log \tfrac1n \|F\|_F^2 - \tfrac2n \sum_i \log |F_{ii}|, \qquad FF^\top = HH^\top $$

    Infinite when the samples are linearly dependent, also numerically: condition number above 1e14,
    or more samples than units.
    """
    rows = _rows(hidden, centered)
    gap = _gap_of_square(rows)
    return factor_isometry_gap(gram_factor(rows)) if gap is None else gap


def _gap_of_square(rows: Hidden) -> Scalar | None:
    """The isometry gap of as many samples as units, in float64, by elimination; None if in doubt.

    A third of the work of rotations where the gap is small; elsewhere it is that much more.
    """
    samples, units = rows.shape[-2:]
    if samples != units or rows.requires_grad:
        return None
    factors = torch.linalg.lu_factor_ex(rows).LU
    gap = _gap(rows, 2 * factors.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1))
    # Entries of the rows are about 1 at most, and so are the multipliers, which share the memory of the triangle.
    has_grown = bool(factors.abs().amax() > _LARGEST_GROWTH)
    return gap if not has_grown and _is_conditioned(gap, samples, _WELL_CONDITIONED) else None


def factor_isometry_gap(factor: Float[Tensor, "*batch samples samples"]) -> Scalar:
    """`isometry_gap` of samples from their triangular factor (`linalg.gram_factor`)."""
    size = factor.shape[-1]
    # The determinant of a triangle is the product of its diagonal; the Gram matrix would square the condition.
    gap = _gap(factor, 2 * factor.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1))
    if _is_conditioned(gap, size, RANK_DEFICIENT):
        return gap
    condition = triangle_condition(factor)
    doubtful = (condition >= RANK_DEFICIENT) & (condition < RANK_DEFICIENT * size)
    if bool(doubtful.any()):
        # The quick bound may be a factor `size` too large: near the limit, the exact one decides.
        values = singular_values(factor[doubtful])
        condition = condition.masked_scatter(doubtful, values[..., 0] / values[..., -1])
    return torch.where(condition < RANK_DEFICIENT, gap, torch.where(condition.isnan(), torch.nan, torch.inf))


def _gap(square: Float[Tensor, "*batch samples samples"], log_determinant: Scalar) -> Scalar:
    r"""$\psi$ of a square $F$, from $\log\det FF^\top$."""
    size = square.shape[-1]
    return ((square.square().sum((-2, -1)) / size).log() - log_determinant / size).clamp_min(0)


def _is_conditioned(gap: Scalar, size: int, limit: float) -> bool:
    r"""Whether the gap proves condition numbers below the limit; nan does not.

    $\kappa(F) < 2\,(\|F\|_F/\sqrt n)^n / |\det F| = 2e^{n\psi/2}$ (Guggenheimer, Edelman & Johnson, 1995).
    """
    return bool((size * gap / 2 < math.log(limit / 2)).all())


def isometry(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""1 for samples that are orthogonal and of one length, 0 for dependent ones.

    $$ I(H) = \frac{\det(HH^\top)^{1/n}}{\operatorname{tr} HH^\top/n} = e^{-\psi(H)} $$
    """
    return (-isometry_gap(hidden, centered)).exp()


def mean_overlap(hidden: Hidden, centered: bool = False, absolute: bool = False) -> Scalar:
    """Mean cosine over pairs $i<j$ of samples: 0 for orthogonal ones, 1 for one direction.

    Centered, an isotropic batch has $-1/(n-1)$. Samples that are zero have no direction and are left out.
    """
    inner = _gram(hidden, centered)
    return gram_absolute_overlap(inner) if absolute else gram_overlap(inner)


def overlap_potential(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""$\gamma = \max_{i\ne j} |c_{ij}|/(1-|c_{ij}|)$ of the cosines $c$: 0 if orthogonal, infinite if parallel.

    A cosine is known to a few units of rounding: what is closer to 1 than that is 1.
    """
    values, pairs = cosines(_gram(hidden, centered))
    worst = (values.abs() * pairs).amax((-2, -1))
    apart = torch.where(1 - worst > 16 * torch.finfo(worst.dtype).eps, 1 - worst, 0.0)
    return torch.where(pairs.any(-1).any(-1), worst / apart, torch.nan)


def mean_energy(hidden: Hidden) -> Scalar:
    r"""Fraction of the energy in the batch mean, $n\|\bar h\|^2/\sum_i\|h_i\|^2$: 1 when all samples are equal."""
    rows = _rows(hidden, centered=False)
    return rows.shape[-2] * rows.mean(-2).square().sum(-1) / rows.square().sum((-2, -1))


def length_spread(hidden: Hidden) -> Scalar:
    r"""Standard deviation of the lengths $\|h_i\|$ of the samples over their mean: 0 if all are equally long.

    It tells the two causes of an orthogonality gap apart: $\sqrt{n-1}$, the most, if one long sample outweighs all
    others, although their directions may be orthogonal.
    """
    lengths = torch.linalg.vector_norm(_rows(hidden, centered=False), dim=-1)
    return lengths.std(-1, correction=0) / lengths.mean(-1)


def numerical_rank(hidden: Hidden, centered: bool = False, precision: torch.dtype | None = None) -> Scalar:
    r"""Rank of the Gram, by `torch.linalg.matrix_rank`'s rule: $\#\{i: \sigma_i^2 > n\,\varepsilon\,\sigma_1^2\}$.

    $\varepsilon$ is that of `precision`: the same batch may have full rank in float64 and not in float32.
    """
    rows = _rows(hidden, centered)
    return counted_rank(singular_values(rows), rows.shape[-2], precision or hidden.dtype)


def stable_rank(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""$\|H\|_F^2/\sigma_1^2$: between 1 and the rank, insensitive to small singular values."""
    return energy_rank(singular_values(_rows(hidden, centered)))


def effective_rank(hidden: Hidden, centered: bool = False) -> Scalar:
    r"""$\exp$ of the entropy of $\sigma_i/\sum_j\sigma_j$: how many directions the samples really use."""
    return entropy_rank(singular_values(_rows(hidden, centered)))


def _rows(hidden: Hidden, centered: bool) -> Float[Tensor, "*batch rows units"]:
    rows = scaled(hidden)
    if not centered:
        return rows
    if rows.shape[-2] < 2:
        raise ValueError("the batch has one sample, and a centered metric needs at least 2")
    return contrasts(rows)


def scaled(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rows columns"]:
    """In float64, at a scale where no square overflows or vanishes."""
    entries = matrix.double()
    largest = entries.detach().abs().amax((-2, -1), keepdim=True)
    return entries / torch.where(largest > 0, largest, 1.0)


def _gram(hidden: Hidden, centered: bool) -> Float[Tensor, "*batch samples samples"]:
    """All inner products; centered ones of the samples without their mean, not of its contrasts."""
    rows = _rows(hidden, centered=False)
    rows = rows - rows.mean(-2, keepdim=True) if centered else rows
    return rows @ rows.mT


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


def gram_gap(gram: Gram, samples: int | None = None) -> Scalar:
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


def gram_overlap(gram: Gram) -> Scalar:
    r"""Mean cosine over pairs of the $m$ samples that are not zero.

    $$ \frac{u^\top G u - m}{m(m-1)}, \qquad u_i = 1/\sqrt{G_{ii}} $$
    """
    norms = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    inverse = torch.where(norms > 0, 1 / norms, 0.0)
    count = (norms > 0).sum(-1)
    total = (inverse.unsqueeze(-2) @ gram @ inverse.unsqueeze(-1)).squeeze(-1).squeeze(-1)
    return torch.where(count > 1, (total - count) / (count * (count - 1)), torch.nan)


def gram_absolute_overlap(gram: Gram) -> Scalar:
    """Mean size of the cosine over pairs; nan without a pair."""
    values, pairs = cosines(gram)
    return (values.abs() * pairs).sum((-2, -1)) / pairs.sum((-2, -1))


def gram_mean_energy(gram: Gram) -> Scalar:
    r"""Energy of the batch mean over all energy, $\mathbf{1}^\top G\mathbf{1}/(n\operatorname{tr}G)$."""
    return gram.sum((-2, -1)) / (gram.shape[-1] * _trace(gram))


def _trace(gram: Gram) -> Scalar:
    return gram.diagonal(dim1=-2, dim2=-1).sum(-1)
