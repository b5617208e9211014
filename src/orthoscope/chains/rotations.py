r"""Haar matrices applied to a batch without being formed, from the normal numbers they are made of."""

import torch
from jaxtyping import Float
from torch import Tensor


def rotated(
    rows: Float[Tensor, "seeds samples rank"], numbers: Float[Tensor, "seeds rank units"]
) -> Float[Tensor, "seeds samples units"]:
    r"""$XQ^\top$ for $Q$ uniform among the matrices `(units, rank)` with orthonormal columns.

    Column $i$ of a Gaussian matrix, of which the first $i-1$ reflections of its QR factorisation have left the last
    entries $x_i$ as normal as before, is reflected on $-s_i\|x_i\|e_i$, $s_i = \operatorname{sign} x_{ii}$, by
    $v_i = x_i + s_i\|x_i\|e_i$. So (Stewart, 1980), with $x_i$ drawn afresh and $E$ the first columns of the identity,

    $$ Q = H_1\cdots H_r\,E\operatorname{diag}(-s), \quad H_1\cdots H_r = I - V S^{-1} V^\top, \quad
       S = \operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V), $$

    and $(XQ^\top)^\top = B - V S^{-1} V^\top B$ with $B = E\operatorname{diag}(-s)X^\top$: three products and a
    triangle to solve, as accurate as QR for every draw. Only the upper triangle of `numbers` is used.
    """
    rank, units = numbers.shape[-2:]
    vectors = numbers.triu()  # Vᵀ
    diagonal = vectors.diagonal(dim1=-2, dim2=-1)
    signs = torch.where(diagonal < 0, 1.0, -1.0)
    diagonal -= signs * torch.linalg.vector_norm(vectors, dim=-1)
    factor = vectors @ vectors.mT
    factor.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    signed = rows * signs.unsqueeze(-2)
    # `upper` reads no entry below the diagonal, so the Gram matrix may stay there.
    weights = torch.linalg.solve_triangular(factor, vectors[..., :rank] @ signed.mT, upper=True)
    turned = torch.nn.functional.pad(signed, (0, units - rank))
    return turned.baddbmm_(weights.mT, vectors, alpha=-1)
