r"""Haar matrices applied to a batch without being formed, from the normal numbers they are made of."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Reflections(NamedTuple):
    r"""$H_i = I - \tau_i v_iv_i^\top$ with $v_{ii} = 1$, and the signs of the columns of their product."""

    vectors: Float[Tensor, "seeds rank units"]
    weights: Float[Tensor, "seeds rank"]
    signs: Float[Tensor, "seeds rank"]


def rotated(
    rows: Float[Tensor, "seeds samples rank"], numbers: Float[Tensor, "seeds rank units"]
) -> Float[Tensor, "seeds samples units"]:
    r"""$XQ^\top$ for $Q$ uniform among the matrices `(units, rank)` with orthonormal columns.

    Column $i$ of a Gaussian matrix, of which the first $i-1$ reflections of its QR factorisation have left the last
    entries $x_i$ as normal as before, is reflected on $-s_i\|x_i\|e_i$, $s_i = \operatorname{sign} x_{ii}$, by
    $v_i = x_i + s_i\|x_i\|e_i$. So (Stewart, 1980), with $x_i$ drawn afresh and $E$ the first columns of the identity,

    $$ Q = H_1\cdots H_r\,E\operatorname{diag}(-s), \qquad (XQ^\top)^\top = H_1\cdots H_r B, \quad
       B = E\operatorname{diag}(-s)X^\top, $$

    as accurate as QR for every draw. Only the upper triangle of `numbers` is used.
    """
    rank, units = numbers.shape[-2:]
    reflections = _reflections(numbers)
    turned = torch.nn.functional.pad(rows * reflections.signs.unsqueeze(-2), (0, units - rank))
    # LAPACK takes the matrices of a stack one by one, which only a CPU likes; there it is the faster of the two.
    reflect = reflected_one_by_one if rows.device.type == "cpu" else reflected_at_once
    return reflect(turned, reflections)


def _reflections(numbers: Float[Tensor, "seeds rank units"]) -> Reflections:
    vectors = numbers.triu()
    diagonal = vectors.diagonal(dim1=-2, dim2=-1)
    signs = torch.where(diagonal < 0, 1.0, -1.0)
    norms = torch.linalg.vector_norm(vectors, dim=-1)
    diagonal -= signs * norms
    # τ = 2v_ii²/|v|², and |v|² = 2|x||v_ii|.
    weights = diagonal.abs() / norms
    return Reflections(vectors.div_(diagonal.clone().unsqueeze(-1)), weights, signs)


def reflected_one_by_one(
    rows: Float[Tensor, "seeds samples units"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""$(H_1\cdots H_r B)^\top$ for $B$ the transposed rows, in blocks of reflections, by LAPACK."""
    return torch.ormqr(reflections.vectors.mT, reflections.weights, rows.mT).mT


def reflected_at_once(
    rows: Float[Tensor, "seeds samples units"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""The same by products of whole stacks: with $v_i$ the columns of $V$,

    $$ H_1\cdots H_r = I - V S^{-1} V^\top, \qquad
       S = \operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V). $$
    """
    vectors = reflections.vectors
    factor = vectors @ vectors.mT
    factor.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    # `upper` reads no entry below the diagonal, so the Gram matrix may stay there.
    weights = torch.linalg.solve_triangular(factor, vectors @ rows.mT, upper=True)
    return rows.baddbmm(weights.mT, vectors, alpha=-1)
