r"""Random weights of many networks, each from a generator of its own, and their products with batches.

What a network draws depends on its seed and on the shapes of its layers, never on the other networks: numbers are drawn
in blocks whose size depends on one layer's shape alone, and a block is always drawn whole, so that a deeper network
begins with the layers of a shallower one. Haar matrices are applied to batches as products of reflections, without
being formed.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, final

import numpy
import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Batches, Chain, Draw
from orthoscope.linalg import gram_factor

Weights = Float[Tensor, "seeds out fan_in"]
Preactivations = Float[Tensor, "seeds samples out"]
# States of torch's generator and, on a CPU, of numpy's.
State: TypeAlias = tuple[Tensor, Mapping[str, Any] | None]

# Numbers that one network draws at a time, unless a layer needs more. Part of the definition of a network's weights.
BLOCK = 1 << 14
# The same for a function of the caller: it may be slow, and layers that are not needed are thrown away.
_CALLER_BLOCK = 1 << 10


class Reflections(NamedTuple):
    r"""$H_i = I - \tau_i v_iv_i^\top$, $v_i$ is 1 after $i-1$ zeros, and the signs $s_i$ of the columns of $Q$."""

    vectors: Float[Tensor, "*batch rank units"]
    taus: Float[Tensor, "*batch rank"]
    signs: Float[Tensor, "*batch rank"]


@final
class RandomStream:
    """Random numbers of one network, in float64.

    On a CPU by numpy, whose SFC64 and ziggurat take less than half the time of torch's Mersenne twister for normal
    numbers; on an accelerator by torch. `generator` is torch's, for everything else.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.generator = torch.Generator(device).manual_seed(seed)
        self._numpy = numpy.random.Generator(numpy.random.SFC64(seed)) if device.type == "cpu" else None

    def fill_normal_(self, out: Tensor) -> None:
        """Overwrite `out` with standard normal numbers."""
        if self._numpy is None:
            out.normal_(generator=self.generator)
        else:
            self._numpy.standard_normal(out=out.numpy())

    @property
    def state(self) -> State:
        """The state; assigning it again repeats the numbers that followed it."""
        return self.generator.get_state(), None if self._numpy is None else self._numpy.bit_generator.state

    @state.setter
    def state(self, state: State) -> None:
        of_torch, of_numpy = state
        self.generator.set_state(of_torch)
        if self._numpy is not None and of_numpy is not None:
            self._numpy.bit_generator.state = of_numpy


def random_streams(seeds: Sequence[int], device: torch.device, purpose: int = 0) -> list[RandomStream]:
    r"""Return a stream for every seed $s$, started at $(2654435761\,s + 12345 + \text{purpose}) \bmod 2^{32}$.

    One to one (the factor is odd), and not at $s$ itself: a batch that the caller drew from the same seed would
    otherwise consist of the same random numbers as the weights.
    """
    return [RandomStream((2654435761 * seed + 12345 + purpose) % 2**32, device) for seed in seeds]


def normal_blocks(
    streams: Sequence[RandomStream], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds layers rows columns"]]:
    """Yield standard normal matrices of some layers at a time, `layers` in all."""
    return _blocks(RandomStream.fill_normal_, streams, shape, layers)


def _blocks(
    fill_: Callable[[RandomStream, Tensor], None],
    streams: Sequence[RandomStream],
    shape: tuple[int, int],
    layers: int,
    numbers: int = BLOCK,
) -> Iterator[Float[Tensor, "seeds layers rows columns"]]:
    count = max(1, numbers // math.prod(shape))
    for begin in range(0, layers, count):
        block = torch.empty(len(streams), count, *shape, dtype=torch.float64, device=streams[0].generator.device)
        for own, stream in zip(block, streams, strict=True):
            fill_(stream, own)
        yield block[:, : layers - begin]


def _fill_by_caller_(draw: Draw, stream: RandomStream, out: Float[Tensor, "layers rows columns"]) -> None:
    layers, outputs, inputs = out.shape
    weights = draw(layers, outputs, inputs, stream.generator)
    if weights.shape != out.shape:
        raise ValueError(
            f"init returned weights of shape {tuple(weights.shape)} for {layers} layers of {outputs} outputs "
            f"and {inputs} inputs: return {tuple(out.shape)}"
        )
    out.copy_(weights)


def layer_groups(fan_in: int, width: int, layers: int) -> list[tuple[int, int]]:
    """Return (inputs, number of layers) of consecutive layers of one shape, which draw their blocks together."""
    first = 1 if fan_in != width and layers else 0
    return [(fan_in, first), (width, layers - first)]


def drawn_weights(chain: Chain, streams: Sequence[RandomStream], fan_in: int, layers: int) -> Iterator[Weights]:
    """Yield the weights of one layer after another."""
    shape = (chain.width, fan_in)
    if callable(chain.init):
        for block in _blocks(partial(_fill_by_caller_, chain.init), streams, shape, layers, _CALLER_BLOCK):
            yield from block.unbind(1)
    elif chain.init == "gaussian":
        for block in normal_blocks(streams, shape, layers):
            yield from block.div_(math.sqrt(fan_in)).unbind(1)
    else:
        rank, units = fan_in, max(shape)
        identity = torch.eye(fan_in, dtype=torch.float64, device=streams[0].generator.device)
        for block in normal_blocks(streams, folded_shape(rank, units), layers):
            for reflections in haar_reflections(block, rank, units):
                # The rows that are rotated are the columns of the weight.
                yield rotated(identity.expand(len(streams), -1, -1), reflections)[..., : chain.width].mT


def products_in_law(
    chain: Chain, streams: Sequence[RandomStream], samples: int, fan_in: int, layers: int
) -> Iterator[Callable[[Batches], Preactivations]]:
    r"""Yield for one layer after another a map $H \mapsto HW^\top$, exact in law for one batch $H = FU$, $UU^\top = I$.

    $$ HW^\top \sim F G/\sqrt{\text{fan\_in}} \ \text{(Gaussian $W$, $G$ standard normal)}, \qquad
       HW^\top \sim F Q^\top \ \text{($W$ and $Q$ Haar)} $$

    because the law of $WU^\top$ does not depend on $U$. With fewer samples $n$ than inputs $F$ is a triangle $(n, n)$
    and only $n$ columns of $W$ are drawn; else $F = H$. A wide Haar matrix consists of the first rows of a square one.
    Other weights are drawn in full.
    """
    shape = numbers_in_law(chain, samples, fan_in)
    if chain.init == "gaussian":
        for block in normal_blocks(streams, shape, layers):
            yield from (partial(_gaussian_product, normal) for normal in block.unbind(1))
    elif chain.init == "orthogonal":
        rank, units = _haar_shape(chain, samples, fan_in)
        for block in normal_blocks(streams, shape, layers):
            yield from (partial(_haar_product, chain.width, each) for each in haar_reflections(block, rank, units))
    else:
        yield from (partial(torch.matmul, other=weight.mT) for weight in drawn_weights(chain, streams, fan_in, layers))


def numbers_in_law(chain: Chain, samples: int, fan_in: int) -> tuple[int, int]:
    """Return the shape of the random numbers of one layer of `products_in_law`."""
    if chain.init == "gaussian":
        return min(samples, fan_in), chain.width
    if chain.init == "orthogonal":
        return folded_shape(*_haar_shape(chain, samples, fan_in))
    return chain.width, fan_in


def _haar_shape(chain: Chain, samples: int, fan_in: int) -> tuple[int, int]:
    """Columns and rows of the orthonormal frame that replaces a Haar weight in law."""
    return min(samples, fan_in), max(chain.width, fan_in)


def _gaussian_product(normal: Float[Tensor, "seeds rank out"], hidden: Batches) -> Preactivations:
    return torch.bmm(_triangle(hidden), normal).div_(math.sqrt(hidden.shape[-1]))


def _haar_product(width: int, reflections: Reflections, hidden: Batches) -> Preactivations:
    return rotated(_triangle(hidden), reflections)[..., :width]


def _triangle(hidden: Batches) -> Float[Tensor, "seeds samples rank"]:
    r"""$F$ with $FF^\top = HH^\top$: a lower triangle with nonnegative diagonal, or $H$ if that has no more columns.

    `gram_factor` takes a QR factorization instead of a Cholesky factor if one network of the stack is
    ill-conditioned. The two differ in signs, which must not depend on the other networks.
    """
    samples, units = hidden.shape[-2:]
    if samples >= units:
        return hidden
    triangle = gram_factor(hidden)
    return triangle * torch.where(triangle.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)


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
