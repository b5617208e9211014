r"""How orthogonal a weight is: from a matrix $W$, `(out, in)`, to one number, batched over leading dimensions.

A convolution is read as `(out, in·k·k)` by `orthoscope.linalg.weight_matrix`.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import singular_values
from orthoscope.metrics.representations import mean_overlap
from orthoscope.metrics.spectral import Scalar

Weight = Float[Tensor, "*batch out fan_in"]
Vectors = Literal["rows", "columns"]


def parameter_independence(weight: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""PII: mean $|\cos(w_i, w_j)|$ over pairs of weight vectors; 0 is orthogonal, 1 is one direction.

    Rows are output neurons or flattened filters. Gaussian vectors of dimension $m$ have
    $\Gamma(m/2)/(\sqrt\pi\,\Gamma((m+1)/2)) \approx \sqrt{2/(\pi m)}$.
    """
    return mean_overlap(_vectors(weight, vectors), absolute=True)


def diagonal_dominance(weight: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""$\min_i (|G_{ii}| - \sum_{j\ne i}|G_{ij}|)/|G_{ii}|$ of the weight vectors' Gram matrix: 1 is orthogonal."""
    rows = _vectors(weight, vectors).double()
    gram = (rows @ rows.mT).abs()
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    return ((2 * diagonal - gram.sum(-1)) / diagonal).amin(-1)


def soft_orthogonality(weight: Weight) -> Scalar:
    r"""$\|I - W^\top W\|_F$, not squared: 0 for orthonormal columns, $\sqrt{\text{in}-\text{out}}$ at least if wide."""
    out, fan_in = weight.shape[-2:]
    # With the smaller Gram matrix: each of the missing eigenvalues is 0 and adds 1.
    deviation = _smaller_side_deviation(weight)
    return deviation if fan_in <= out else (deviation.square() + fan_in - out).sqrt()


def double_sided_orthogonality(weight: Weight, remove_floor: bool = False) -> Scalar:
    r"""$\|I - W^\top W\|_F + \|I - WW^\top\|_F$: 0 only for a square orthogonal matrix.

    A matrix that is not square cannot go below $\sqrt{|\text{out}-\text{in}|}$; `remove_floor` subtracts that.
    """
    floor = math.sqrt(abs(weight.shape[-2] - weight.shape[-1])) if remove_floor else 0.0
    return soft_orthogonality(weight) + soft_orthogonality(weight.mT) - floor


def rms_operator_norm(weight: Weight) -> Scalar:
    r"""How much a layer can enlarge a root mean square: $\sqrt{d_\text{in}/d_\text{out}}\,\|W\|_2$."""
    out, fan_in = weight.shape[-2:]
    return math.sqrt(fan_in / out) * singular_values(weight)[..., 0]


def _smaller_side_deviation(weight: Weight) -> Scalar:
    side = weight.double() if weight.shape[-2] <= weight.shape[-1] else weight.double().mT
    identity = torch.eye(side.shape[-2], dtype=side.dtype, device=side.device)
    return torch.linalg.matrix_norm(identity - side @ side.mT)


def _vectors(weight: Weight, vectors: Vectors) -> Tensor:
    if vectors not in ("rows", "columns"):
        raise ValueError(f"weight vectors are 'rows' or 'columns', got {vectors!r}")
    return weight if vectors == "rows" else weight.mT
