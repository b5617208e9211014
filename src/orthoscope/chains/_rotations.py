r"""Haar matrices applied to batches without being formed, as products of reflections."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor


class Reflections(NamedTuple):
    r"""$H_i = I - \tau_i v_iv_i^\top$, $v_i$ is 1 after $i-1$ zeros, and the signs $s_i$ of the columns of $Q$."""

    vectors: Float[Tensor, "*batch rank units"]
    taus: Float[Tensor, "*batch rank"]
    signs: Float[Tensor, "*batch rank"]


def folded_shape(rank: int, units: int) -> tuple[int, int]:
    """Return the shape of the normal numbers behind `(units, rank)`: reflection i takes units - i, two share a row."""
    return (rank + 1) // 2, 2 * units - rank + 1


def haar_reflections(normal: Float[Tensor, "seeds layers half both"], rank: int, units: int) -> Iterator[Reflections]:
    r"""Yield, layer by layer, matrices $Q$ uniform among those `(units, rank)` with orthonormal columns.

    Column $i$ of a Gaussian matrix, whose last entries $x_i$ the first $i-1$ reflections of its QR factorization leave
    standard normal, is mapped to $-s_i\|x_i\|e_i$, $s_i = \operatorname{sign} x_{ii}$, by the reflection along
    $v_i = x_i + s_i\|x_i\|e_i$. So, with fresh normal $x_i$ and $E$ the first columns of the identity (Stewart, 1980),

    $$ Q = H_1\cdots H_r\,E\operatorname{diag}(s), \qquad (XQ^\top)^\top = H_1\cdots H_r B, \quad
       B = E\operatorname{diag}(s)X^\top, $$

    as accurate as a QR factorization, whose orthonormal factor is $-Q$.

    Args:
        normal: Standard normal numbers of all networks and layers, of `folded_shape`.
        rank: Columns of $Q$.
        units: Rows of $Q$.
    """
    # Layers first, so that the vectors of one layer are contiguous.
    vectors = _unfolded(normal.transpose(0, 1), rank, units)
    diagonal = vectors.diagonal(dim1=-2, dim2=-1)
    signed = torch.linalg.vector_norm(vectors, dim=-1).copysign_(diagonal)
    heads = signed + diagonal  # v_ii, before all are divided by it
    vectors.div_(heads.unsqueeze(-1)).diagonal(dim1=-2, dim2=-1).fill_(1)
    # τ = 2v_ii²/|v|², and |v|² = 2|x||v_ii|.
    yield from map(Reflections, vectors, heads.div_(signed), signed.sign())


def _unfolded(normal: Float[Tensor, "*batch half both"], rank: int, units: int) -> Float[Tensor, "*batch rank units"]:
    """Return the upper triangle of all x_i: a row of `normal` ends with an upper one and begins with a lower one."""
    lower = normal[..., : rank // 2, :units].flip(-2, -1)
    return torch.cat([normal[..., -units:], lower], dim=-2).triu_()


def rotated(
    rows: Float[Tensor, "seeds samples rank"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""Return $XQ^\top$ for $Q = H_1\cdots H_rE\operatorname{diag}(s)$."""
    padding = reflections.vectors.shape[-1] - rows.shape[-1]
    signed = rows * reflections.signs.unsqueeze(-2)
    padded = torch.nn.functional.pad(signed, (0, padding)) if padding else signed
    # LAPACK takes the matrices of a stack one by one: with the fewest operations, but an accelerator would be idle.
    return (reflected_by_lapack if rows.is_cpu else reflected_by_products)(padded, reflections)


def reflected_by_lapack(
    rows: Float[Tensor, "seeds samples units"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""Return $(H_1\cdots H_r B)^\top$ for the transposed rows $B$, reflection by reflection."""
    return torch.ormqr(reflections.vectors.mT, reflections.taus, rows.mT).mT


def reflected_by_products(
    rows: Float[Tensor, "seeds samples units"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""Return the same as `reflected_by_lapack` by products of whole stacks, with $v_i$ the columns of $V$.

    $$ H_1\cdots H_r = I - V S^{-1} V^\top, \qquad
       S = \operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V). $$
    """
    vectors = reflections.vectors
    factor = vectors @ vectors.mT
    factor.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    # `upper` reads no entry below the diagonal, so the Gram matrix may stay there.
    coefficients = torch.linalg.solve_triangular(factor, vectors @ rows.mT, upper=True)
    return torch.baddbmm(rows, coefficients.mT, vectors, alpha=-1)
