"""The singular value decomposition, also where LAPACK gives up."""

import torch
from jaxtyping import Inexact
from torch import Tensor


def svd(
    matrix: Inexact[Tensor, "*batch m n"],
) -> tuple[Inexact[Tensor, "*batch m k"], Inexact[Tensor, "*batch k"], Inexact[Tensor, "*batch k n"]]:
    r"""$A = U \Sigma V^\mathsf{H}$ with $k = \min(m, n)$ columns.

    LAPACK's divide and conquer now and then does not converge on a matrix whose singular values are all but equal, as
    of a batch that is orthogonal. It then takes $A^\mathsf{H} = V \Sigma U^\mathsf{H}$, by other rotations.
    """
    try:
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        right, values, left = torch.linalg.svd(matrix.mH, full_matrices=False)
        return left.mH, values, right.mH
    return left, values, right
