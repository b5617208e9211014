r"""What an update does to a weight: from $\Delta W = W' - W$ and $W$, both `(out, in)`, to one number.

Its size, its spectrum, its direction, and its effect on the angles between weight vectors.
Every function batches over leading dimensions and reduces in float64. Of the update alone, the metrics of any matrix
apply too: `singular_values`, `effective_rank`, `stable_rank`, and `rms_operator_norm`, the RMS → RMS norm
$\sqrt{\text{in}/\text{out}}\,\|\Delta W\|_2$. A convolution is read as `(out, in·k·k)` by `linalg.weight_matrix`.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import singular_values
from orthoscope.metrics.gradients import gradient_disparity, log_norm
from orthoscope.metrics.representations import Gram, Scalar, Spectrum, cosines, scaled
from orthoscope.metrics.weights import Vectors, Weight, parameter_independence, weight_vectors

Norm = Literal["frobenius", "spectral"]
Side = Literal["left", "right", "both"]


def relative_size(update: Weight, weight: Weight, norm: Norm = "frobenius") -> Scalar:
    r"""$\|\Delta W\|/\|W\|$, without unit, in Frobenius' norm (entries) or the spectral one (largest singular value).

    0 for no update, infinite for an update of a zero weight, nan for no update of one.
    """
    _require_one_shape(update, weight)
    if norm == "frobenius":
        # Through logarithms: squares of 1e-200 vanish, and with them the whole update.
        return (log_norm(update) - log_norm(weight)).exp()
    if norm == "spectral":
        return singular_values(update)[..., 0] / singular_values(weight)[..., 0]
    raise ValueError(f"a size is measured in the 'frobenius' or the 'spectral' norm, got {norm!r}")


def semi_orthogonality_defect(update: Weight) -> Scalar:
    r"""Share of the update beside the nearest multiple of a matrix with orthonormal rows (columns, if tall).

    $$ \min_{c,\,Q} \frac{\|\Delta W - cQ\|_F}{\|\Delta W\|_F}
       = \sqrt{\frac{\sum_i (\sigma_i - \bar\sigma)^2}{\sum_i \sigma_i^2}}, \qquad Q = UV^\top,\ c = \bar\sigma $$

    0 for what exact Muon does, $\sqrt{1-1/k}$ for rank one with $k = \min(\text{out},\text{in})$, nan for no update.
    Unchanged by scale and by rotation on either side.
    """
    return spectral_unevenness(singular_values(update))


def spectral_unevenness(spectrum: Spectrum) -> Scalar:
    r"""$\sqrt{\sum_i (\sigma_i - \bar\sigma)^2/\sum_i \sigma_i^2}$: 0 if all are equal, nan if all are zero."""
    share = spectrum / torch.linalg.vector_norm(spectrum, dim=-1, keepdim=True)
    return torch.linalg.vector_norm(share - share.mean(-1, keepdim=True), dim=-1)


def update_alignment(update: Weight, weight: Weight) -> Scalar:
    r"""Cosine $\langle\Delta W, W\rangle/(\|\Delta W\|_F\|W\|_F)$: -1 for pure decay, 1 for pure growth, 0 for neither.

    nan where one of them is zero. An update with cosine $c$ and relative size $r$ multiplies $\|W\|_F^2$ by
    $1 + 2cr + r^2$.
    """
    _require_one_shape(update, weight)
    return (_unit(update) * _unit(weight)).sum((-2, -1))


def subspace_share(update: Weight, weight: Weight, rank: int, side: Side = "both") -> Scalar:
    r"""Share of the update's energy in the space of the weight's leading singular vectors $U_k$, $V_k$.

    $$ \frac{\|U_k^\top\Delta W\|_F^2}{\|\Delta W\|_F^2}\ \text{(left)}, \qquad
       \frac{\|\Delta W V_k\|_F^2}{\|\Delta W\|_F^2}\ \text{(right)}, \qquad
       \frac{\|U_k^\top\Delta W V_k\|_F^2}{\|\Delta W\|_F^2}\ \text{(both)} $$

    0 to 1; a random direction has $k/\text{out}$, $k/\text{in}$ and their product; nan for no update. Where $W$ has
    $\sigma_k = \sigma_{k+1}$ the space is not unique and one of them is taken. Differentiable in the update alone.
    """
    _require_one_shape(update, weight)
    if not 1 <= rank <= min(weight.shape[-2:]):
        raise ValueError(f"a weight of shape {tuple(weight.shape)} has no {rank} singular vectors: choose a lower rank")
    if side not in ("left", "right", "both"):
        raise ValueError(f"singular vectors are on the 'left', the 'right' or 'both' sides, got {side!r}")
    left, right = leading_directions(weight, rank)
    part = _unit(update)
    part = part if side == "right" else left.mT @ part
    part = part if side == "left" else part @ right
    return part.square().sum((-2, -1))


@torch.no_grad()
def leading_directions(
    weight: Weight, rank: int
) -> tuple[Float[Tensor, "*batch out rank"], Float[Tensor, "*batch fan_in rank"]]:
    r"""Orthonormal bases of the spaces of the $k$ leading left and right singular vectors; no gradient."""
    matrix = scaled(weight)
    wide = matrix.shape[-2] <= matrix.shape[-1]
    short = matrix if wide else matrix.mT
    # The smaller Gram matrix: a third of the cost of singular vectors, and accurate for the leading ones.
    near = torch.linalg.eigh(short @ short.mT).eigenvectors[..., -rank:]
    far = torch.linalg.qr(short.mT @ near).Q
    return (near, far) if wide else (far, near)


def independence_change(before: Weight, after: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""Change of PII, $\text{mean}_{i<j}|\cos(w_i', w_j')| - \text{mean}_{i<j}|\cos(w_i, w_j)|$: above 0 is worse.

    Between -1 and 1; 0 for a rotation of all vectors and for any change of their lengths.
    """
    _require_one_shape(before, after)
    return parameter_independence(after, vectors) - parameter_independence(before, vectors)


def angle_change(before: Weight, after: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""Mean change of the angle of two weight vectors, $\text{mean}_{i<j}|\theta_{ij}' - \theta_{ij}|$, in radians.

    0 if and only if the update was conformal: all angles kept, as by a rotation or a change of lengths. At most $\pi$.
    Pairs in which a vector is zero, before or after, have no angle and are left out; nan without a pair. An angle is
    known to 1e-15, and to 1e-8 where two vectors are parallel.
    """
    _require_one_shape(before, after)
    old, new = (scaled(weight_vectors(weight, vectors)) for weight in (before, after))
    return gram_angle_change(old @ old.mT, new @ new.mT)


def gram_angle_change(before: Gram, after: Gram) -> Scalar:
    """`angle_change` from the Gram matrices of the weight vectors."""
    old, old_pairs = _angles(before)
    new, new_pairs = _angles(after)
    pairs = old_pairs & new_pairs
    # A product, not a mask, so that nan is not lost.
    return ((new - old).abs() * pairs).sum((-2, -1)) / pairs.sum((-2, -1))


def conformality_defect(before: Weight, after: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""Radians of `angle_change` per unit of relative size: how far an update is from conformal, whatever its length.

    $$ \frac{\text{mean}_{i<j}|\theta_{ij}' - \theta_{ij}|}{\|W' - W\|_F/\|W\|_F} $$

    0 for a conformal update. Small random updates of $n \le m$ orthogonal vectors of one length in dimension $m$ have
    $2/\sqrt{\pi m}$. A common translation of all vectors, which Lu et al. (2024) call conformal, is not: two orthogonal
    unit vectors moved by their sum go from 90 to 37 degrees. nan without a change.
    """
    return angle_change(before, after, vectors) / relative_size(after.double() - before.double(), before)


def translation_defect(update: Weight) -> Scalar:
    r"""Mean distance between the moves $\delta_i$ of two weight vectors, in units of their root mean square length.

    $$ \frac{\text{mean}_{i<j}\|\delta_i - \delta_j\|}{\sqrt{\text{mean}_i\|\delta_i\|^2}} $$

    The $\eta\kappa$ of Lu et al. (2024) without its scale: 0 if all vectors move alike, $\sqrt2$ for orthogonal moves
    of one length, which is what exact Muon makes of a wide matrix; never above $\sqrt{2n/(n-1)}$. nan for no update.
    """
    rows = _unit(update)
    return gradient_disparity(rows) * rows.shape[-2] ** 0.5


def _angles(gram: Gram) -> tuple[Gram, Tensor]:
    """Angles of all pairs, and which pairs have one."""
    values, pairs = cosines(gram)
    # The angle of a vector with itself has no derivative, and is not used.
    same = torch.eye(values.shape[-1], dtype=torch.bool, device=values.device)
    return values.masked_fill(same, 0).arccos(), pairs


def _unit(matrix: Weight) -> Weight:
    """Of Frobenius norm 1; nan if it is zero."""
    entries = scaled(matrix)
    return entries / torch.linalg.matrix_norm(entries, keepdim=True)


def _require_one_shape(one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape:
        raise ValueError(f"an update and its weight have one shape, got {tuple(one.shape)} and {tuple(other.shape)}")
