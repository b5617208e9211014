r"""Haar matrices applied to a batch without being formed, from the normal numbers they are made of."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Integer
from torch import Tensor

from orthoscope.chains.draws import normal_blocks
from orthoscope.chains.memory import Memory
from orthoscope.chains.sources import Source

# Numbers of the layers whose reflections are made at a time, if one layer has not more: they stay in a core's cache.
_CACHED = 1 << 16


class Reflections(NamedTuple):
    r"""$H_i = I - \tau_i v_iv_i^\top$ with $v_{ii} = 1$, and signs $s_i$ of the columns of their product.

    The diagonal of the `vectors` is left to `reflect_at_once_`: LAPACK does not read it.
    """

    vectors: Float[Tensor, "*batch rank units"]
    weights: Float[Tensor, "*batch rank"]
    signs: Float[Tensor, "*batch rank"]


def folded_shape(rank: int, units: int) -> tuple[int, int]:
    """The normals that make `(units, rank)`: reflection i has units - i of them, and two share a row."""
    return (rank + 1) // 2, 2 * units - rank + 1


def haar_reflections(
    sources: Sequence[Source], rank: int, units: int, layers: int, memory: Memory
) -> Iterator[Reflections]:
    r"""Of matrices $Q$ uniform among those `(units, rank)` with orthonormal columns, one layer after another.

    Column $i$ of a Gaussian matrix, of which the first $i-1$ reflections of its QR factorisation have left the last
    entries $x_i$ as normal as before, is reflected on $-s_i\|x_i\|e_i$, $s_i = \operatorname{sign} x_{ii}$, by
    $v_i = x_i + s_i\|x_i\|e_i$. So (Stewart, 1980), with $x_i$ drawn afresh and $E$ the first columns of the identity,

    $$ Q = H_1\cdots H_r\,E\operatorname{diag}(s), \qquad (XQ^\top)^\top = H_1\cdots H_r B, \quad
       B = E\operatorname{diag}(s)X^\top, $$

    as accurate as QR for every draw, whose own first factor is $-Q$. The $x_i$ of narrow layers are drawn and made
    reflections of many at a time: each operation has its price, and threads that simulate side by side wait for each
    other between any two. A layer is valid until the next is asked for.
    """
    networks = len(sources)
    together = max(1, min(layers, _CACHED // (networks * rank * units)))
    place = memory.place("triangles", (together, networks, rank, units))
    for block in normal_blocks(sources, folded_shape(rank, units), layers):
        for numbers in block.transpose(0, 1).split(together):
            prepared = _reflections(_unfolded(numbers, place[: len(numbers)]))
            yield from map(Reflections, *prepared)


def rotated(
    rows: Float[Tensor, "seeds samples rank"],
    reflections: Reflections,
    memory: Memory,
    out: Float[Tensor, "seeds samples units"] | None = None,
) -> Float[Tensor, "seeds samples units"]:
    r"""$XQ^\top$ for $Q = H_1\cdots H_rE\operatorname{diag}(s)$, in `out` or in memory of the next call too."""
    networks, samples, rank = rows.shape
    units = reflections.vectors.shape[-1]
    turned = memory.place("turned", (networks, samples, units)) if out is None else out
    signs = reflections.signs.unsqueeze(-2)
    if units == rank:
        torch.mul(rows, signs, out=turned)
    else:
        torch.mul(rows, signs, out=turned[..., :rank])
        turned[..., rank:] = 0
    # LAPACK takes the matrices of a stack one by one, which only a CPU likes; there it is the faster of the two.
    reflect_ = reflect_one_by_one_ if rows.device.type == "cpu" else reflect_at_once_
    return reflect_(turned, reflections)


def _unfolded(
    numbers: Float[Tensor, "layers seeds half both"], out: Float[Tensor, "layers seeds rank units"]
) -> Float[Tensor, "layers seeds rank units"]:
    """The triangle of all x_i: the last numbers of a row are those of one from the top, the first of one from below."""
    order = _order(*out.shape[-2:], numbers.device).expand(*out.shape[:2], -1)
    torch.gather(numbers.flatten(2), 2, order, out=out.flatten(2))
    return out.triu_()


@lru_cache(maxsize=2)  # each is as large as a weight
def _order(rank: int, units: int, device: torch.device) -> Integer[Tensor, " entries"]:
    """Which number goes where, as `_unfolded` says; below the diagonal any."""
    half, both = folded_shape(rank, units)
    places = torch.arange(half * both, device=device).view(half, both)
    above, below = places[:, -units:], places[: rank // 2, :units].flip(-2, -1)
    return torch.cat([above, below]).flatten()


def _reflections(vectors: Float[Tensor, "*batch rank units"]) -> Reflections:
    """From the upper triangle of the $x_i$, which is overwritten."""
    diagonal = vectors.diagonal(dim1=-2, dim2=-1)
    signed = torch.linalg.vector_norm(vectors, dim=-1).copysign_(diagonal)
    heads = signed + diagonal  # v_ii before all are divided by it
    # τ = 2v_ii²/|v|², and |v|² = 2|x||v_ii|.
    return Reflections(vectors.div_(heads.unsqueeze(-1)), heads.div_(signed), signed.sign_())


def reflect_one_by_one_(
    rows: Float[Tensor, "seeds samples units"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""$(H_1\cdots H_r B)^\top$ for $B$ the transposed rows, in blocks of reflections, by LAPACK."""
    columns = rows.mT
    torch.ormqr(reflections.vectors.mT, reflections.weights, columns, out=columns)
    return rows


def reflect_at_once_(
    rows: Float[Tensor, "seeds samples units"], reflections: Reflections
) -> Float[Tensor, "seeds samples units"]:
    r"""The same by products of whole stacks: with $v_i$ the columns of $V$,

    $$ H_1\cdots H_r = I - V S^{-1} V^\top, \qquad
       S = \operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V). $$
    """
    vectors = reflections.vectors
    # Written here because only here it is read.
    vectors.diagonal(dim1=-2, dim2=-1).fill_(1)
    factor = vectors @ vectors.mT
    factor.diagonal(dim1=-2, dim2=-1).mul_(0.5)
    # `upper` reads no entry below the diagonal, so the Gram matrix may stay there.
    weights = torch.linalg.solve_triangular(factor, vectors @ rows.mT, upper=True)
    return rows.baddbmm_(weights.mT, vectors, alpha=-1)
