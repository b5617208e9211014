r"""Penalties that pull a weight towards orthogonality, as differentiable functions of one matrix `(out, in)`.

Computed in the weight's own precision (float32, if it is stored in less, also under autocast), batched over leading
dimensions. `metrics.weights` has the same quantities in float64, to report.
`OrthogonalityPenalty` applies them to a model.
"""

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from orthoscope.layers.rounding import computing_dtype
from orthoscope.layers.srip import deviation_along, spectral_direction
from orthoscope.linalg.precision import full_precision
from orthoscope.metrics import deviation

Weight = Float[Tensor, "*batch out fan_in"]
Scalar = Float[Tensor, "*batch"]


def soft_orthogonality(weight: Weight, squared: bool = False, remove_floor: bool = False) -> Scalar:
    r"""SO, $\|I - W^\top W\|_F$ (Ju, 2025), or its square (Bansal et al., 2018): 0 for orthonormal columns.

    A wide weight has too many columns and cannot go below $\sqrt{\text{in}-\text{out}}$, reached by orthonormal rows;
    `remove_floor` subtracts that. Not squared, it is not smooth where it vanishes: there the gradient is 0.
    """
    return _precisely(lambda matrix: deviation.soft_orthogonality(matrix, squared, remove_floor), weight)


def double_sided_orthogonality(weight: Weight, squared: bool = False, remove_floor: bool = False) -> Scalar:
    r"""DSO, $\|I - W^\top W\|_F + \|I - WW^\top\|_F$ (Ju, 2025), or the sum of the squares.

    A weight that is not square cannot go below $\sqrt{|\text{out}-\text{in}|}$, reached by orthonormal rows or
    columns; `remove_floor` subtracts that. The larger Gram matrix is never formed: with $f = |\text{out}-\text{in}|$
    its deviation is $\sqrt{s + f}$ if that of the smaller one is $\sqrt s$.
    """
    return _precisely(lambda matrix: deviation.double_sided_orthogonality(matrix, squared, remove_floor), weight)


def srip(weight: Weight, steps: int = 2, start: Tensor | None = None, squared: bool = False) -> Scalar:
    r"""SRIP, $\sigma=\max_i|\sigma_i^2 - 1|$: the spectral norm of $WW^\top - I$ on the smaller side, or its square.

    By power iteration, without forming the Gram matrix: from `start` $v$, `(*batch, min(out, in))`,
    `steps` times $v \leftarrow (WW^\top - I)\,v$, normalised. The estimate is at most $\sigma$ and grows with `steps`;
    `OrthogonalityPenalty` starts from the direction it found last, and converges along a training. The default start is
    $\sin i^2$, $i = 1, 2, \dots$: no randomness.

    The gradient $u\,(W^\top v)^\top + v\,(W^\top u)^\top$, $u$ the last direction and $v$ the one before, takes both as
    constants, which is exact at convergence. A gradient that is to be differentiated again (`create_graph`,
    `torch.func`) is that of $\sigma$ itself, by eigenvectors of the Gram matrix; if two of its eigenvalues are exactly
    equal, second derivatives are nan.

    What Bansal et al. (2018) published differs. It forms the Gram matrix of the columns also where there are fewer
    rows; then $W^\top W - I$ has the eigenvalue $-1$, and the norm it estimates is at least 1 whatever the weight is.
    It starts at random, anew at every call, differentiates through both power steps, and is squared.
    """

    def estimate(matrix: Tensor) -> Tensor:
        norm, _ = deviation_along(matrix, spectral_direction(matrix, steps - 1, start))
        return norm.square() if squared else norm

    if steps < 1:
        raise ValueError(f"power iteration takes at least one step, got steps={steps}")
    return _precisely(estimate, weight)


def mutual_coherence(weight: Weight) -> Scalar:
    r"""$\max_{i\ne j} |\cos(w_i, w_j)|$ over the rows of a wide or square weight, the columns of a tall one.

    0 for orthogonal vectors of any lengths. The gradient is that of one pair that attains the maximum (a
    subgradient), so a step moves two vectors of the weight.
    """
    return _precisely(lambda matrix: deviation.mutual_coherence(deviation.smaller_side(matrix)), weight)


def _precisely(penalty: Callable[[Tensor], Tensor], weight: Tensor) -> Tensor:
    """In float32 at least: a Gram matrix in half precision cannot tell orthogonal from 1% off."""
    if not weight.is_floating_point():
        raise TypeError(
            f"a penalty needs a weight of real floating-point numbers, got {weight.dtype}: convert it first"
        )
    if weight.ndim < 2:
        raise ValueError(f"a penalty needs a matrix (out, in), got shape {tuple(weight.shape)}: reshape the weight")
    with full_precision(weight.device.type):
        return penalty(weight.to(computing_dtype(weight.dtype)))
