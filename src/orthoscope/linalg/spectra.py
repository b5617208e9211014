"""Singular values in float64, and a singular value decomposition that does not fail where LAPACK does at first."""

import torch
from jaxtyping import Float, Inexact
from torch import Tensor

from orthoscope.linalg.gram_factor import gram_factor
from orthoscope.linalg.precision import to_double


def singular_values(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rank"]:
    """All min(rows, columns) singular values, largest first, in float64.

    A matrix more than twice as long as wide is first reduced to its `gram_factor`, which has the same values.

    Args:
        matrix: One matrix, or a batch of them.
    """
    short = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    return torch.linalg.svdvals(gram_factor(short) if short.shape[-1] > 2 * short.shape[-2] else to_double(short))


def gram_singular_values(gram: Float[Tensor, "*batch samples samples"]) -> Float[Tensor, "*batch samples"]:
    r"""Singular values of $H$ from $HH^\top$, largest first: half the cost of `singular_values`.

    The absolute error is about $\sqrt\varepsilon\,\sigma_1$: right for entropies, ranks and norms, wrong for a
    determinant.

    Args:
        gram: $HH^\top$, symmetric.
    """
    return torch.linalg.eigvalsh(gram).flip(-1).clamp_min(0).sqrt()


def svd(
    matrix: Inexact[Tensor, "*batch m n"],
) -> tuple[Inexact[Tensor, "*batch m k"], Inexact[Tensor, "*batch k"], Inexact[Tensor, "*batch k n"]]:
    r"""$A = U \Sigma V^\mathsf{H}$ with $k = \min(m, n)$ columns.

    LAPACK's divide and conquer occasionally does not converge for a matrix whose singular values are almost equal.
    $A^\mathsf{H} = V \Sigma U^\mathsf{H}$ is then decomposed instead, which takes other rotations.
    """
    try:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        right, values, left = torch.linalg.svd(matrix.mH, full_matrices=False)
        return left.mH, values, right.mH
    return left, values, right
