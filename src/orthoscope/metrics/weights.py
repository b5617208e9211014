r"""How orthogonal a weight is: from a matrix $W$, `(out, in)`, to one number, batched over leading dimensions.

A convolution is read as `(out, in·k·k)` by `orthoscope.linalg.weight_matrix`.
"""

import math
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg import singular_values
from orthoscope.metrics import deviation
from orthoscope.metrics.representations import Scalar, mean_overlap

Weight = Float[Tensor, "*batch out fan_in"]
Vectors = Literal["rows", "columns"]


def parameter_independence(weight: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""PII: mean $|\cos(w_i, w_j)|$ over pairs of weight vectors; 0 is orthogonal, 1 is one direction.

    Rows are output neurons or flattened filters. Gaussian vectors of dimension $m$ have
    $\Gamma(m/2)/(\sqrt\pi\,\Gamma((m+1)/2)) \approx \sqrt{2/(\pi m)}$.
    """
    return mean_overlap(weight_vectors(weight, vectors), absolute=True)


def diagonal_dominance(weight: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""$\min_i (|G_{ii}| - \sum_{j\ne i}|G_{ij}|)/|G_{ii}|$ of the weight vectors' Gram matrix: 1 is orthogonal."""
    rows = weight_vectors(weight, vectors).double()
    gram = (rows @ rows.mT).abs()
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    return ((2 * diagonal - gram.sum(-1)) / diagonal).amin(-1)


def soft_orthogonality(weight: Weight, remove_floor: bool = False) -> Scalar:
    r"""$\|I - W^\top W\|_F$, not squared: 0 for orthonormal columns, $\sqrt{\text{in}-\text{out}}$ at least if wide."""
    return deviation.soft_orthogonality(weight.double(), remove_floor=remove_floor)


def double_sided_orthogonality(weight: Weight, remove_floor: bool = False) -> Scalar:
    r"""$\|I - W^\top W\|_F + \|I - WW^\top\|_F$: 0 only for a square orthogonal matrix."""
    return deviation.double_sided_orthogonality(weight.double(), remove_floor=remove_floor)


def spectral_deviation(weight: Weight) -> Scalar:
    r"""$\max_i |\sigma_i^2 - 1|$, what SRIP estimates: 0 for orthonormal rows or columns, whichever are fewer."""
    return (singular_values(weight).square() - 1).abs().amax(-1)


def mutual_coherence(weight: Weight, vectors: Vectors = "rows") -> Scalar:
    r"""$\max_{i\ne j} |\cos(w_i, w_j)|$ over pairs of weight vectors; 0 is orthogonal, also where there is no pair.

    $n$ vectors in dimension $m < n$ have at least $\sqrt{(n-m)/(m(n-1))}$ (Welch, 1974).
    """
    return deviation.mutual_coherence(weight_vectors(weight, vectors).double())


def rms_operator_norm(weight: Weight) -> Scalar:
    r"""How much a layer can enlarge a root mean square: $\sqrt{d_\text{in}/d_\text{out}}\,\|W\|_2$."""
    out, fan_in = weight.shape[-2:]
    return math.sqrt(fan_in / out) * singular_values(weight)[..., 0]


def weight_vectors(weight: Weight, vectors: Vectors) -> Tensor:
    """The vectors that are compared, as rows: the weight's own rows, `(out, in)`, or its columns, `(in, out)`."""
    if vectors not in ("rows", "columns"):
        raise ValueError(f"weight vectors are 'rows' or 'columns', got {vectors!r}")
    return weight if vectors == "rows" else weight.mT
