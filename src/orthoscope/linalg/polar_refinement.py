"""A polar factor that is right to the last digits, although the condition number of the matrix is 1e8."""

import torch
from torch import Tensor

from orthoscope.linalg.exact_products import exact_product, power_of_two


def refined_polar_factor(matrix: Tensor, frame: Tensor, singular_values: Tensor, right: Tensor) -> Tensor:
    r"""One Newton step for the polar factor of a tall float64 matrix, from $U_0 = WV^\top$ of its decomposition.

    The polar factor answers to a change of $M$ by $\delta$ with $\delta/\sigma_{\min}$, so a decomposition in float64,
    which is exact for some matrix at a distance of $10^{-16}\|M\|$, is wrong by $10^{-8}$ at condition $10^8$. But
    what is wrong can be seen, if it is computed with more digits: $E$, how far $U_0$ is from orthonormal, $P$, which
    should be symmetric, and $N$, the part of $M$ outside the span of $U_0$,

    $$ E = U_0^\top U_0 - I, \qquad P = (I - \tfrac12E)\,U_0^\top M, \qquad N = M - U_0(I - E)\,U_0^\top M. $$

    With $M = WSV^\top$ the correction of first order is elementwise in the basis $V$:

    $$ U = U_0 + \left(U_0V\left(K - \tfrac12 V^\top EV\right) + NVS^{-1}\right)V^\top, \qquad
       K_{ij} = \frac{(V^\top (P - P^\top) V)_{ij}}{s_i + s_j}. $$

    The error left is about the square of the correction, and the rounding of $U$ itself. `singular_values` are $s$,
    largest first, and `right` is $V$; all may be batched. The matrix must have full rank.
    """
    # A power of two, so that nothing is rounded: the lengths of rows and columns become at most 1.
    scale = power_of_two(-torch.frexp(singular_values[..., :1]).exponent)
    matrix, values = matrix * scale[..., None], singular_values * scale
    excess, remainder = exact_product(frame.mT, frame)
    excess.diagonal(dim1=-2, dim2=-1).sub_(1)
    excess += remainder
    overlap, overlap_rest = exact_product(frame.mT, matrix)
    slack = excess @ overlap
    # The difference of the leading parts first: it is exact.
    skew = (overlap - overlap.mT) + (overlap_rest - overlap_rest.mT) - (slack - slack.mT) / 2
    rotation = (right.mT @ skew @ right) / (values[..., :, None] + values[..., None, :])
    change = frame @ (right @ rotation - excess @ right / 2)
    if matrix.shape[-2] > matrix.shape[-1]:
        inside, inside_rest = exact_product(frame, overlap, overlap_rest - slack)
        outside = (matrix - inside) - inside_rest
        change += (outside @ right) / values[..., None, :]
    return frame + change @ right.mT
