r"""What a layer of random weights makes of a batch, with as few random numbers as its law needs."""

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.draws import drawn, normals, uniforms
from orthoscope.chains.rotations import folded_shape, rotated
from orthoscope.linalg import sample_frame

Batches = Float[Tensor, "seeds samples units"]
Weights = Float[Tensor, "seeds out fan_in"]


def numbers_in_law(
    chain: Chain, sources: Sequence[torch.Generator], samples: int, fan_in: int, layers: int
) -> Iterator[Float[Tensor, "seeds rows columns"]]:
    """The random numbers that `preactivations` needs for one layer after another."""
    shape = shape_in_law(chain, samples, fan_in)
    if isinstance(chain.init, str) and chain.init != "uniform":
        return normals(sources, shape, layers)
    return drawn_weights(chain, sources, fan_in, layers)


def shape_in_law(chain: Chain, samples: int, fan_in: int) -> tuple[int, int]:
    """How many random numbers a layer takes."""
    rank = min(samples, fan_in)
    if chain.init == "gaussian":
        return rank, chain.width
    if chain.init == "orthogonal":
        return folded_shape(rank, max(chain.width, fan_in))
    return chain.width, fan_in


def preactivations(
    chain: Chain, hidden: Batches, numbers: Float[Tensor, "seeds rows columns"]
) -> Float[Tensor, "seeds samples out"]:
    r"""$HW^\top$ for a batch $H = FU$, $UU^\top = I$, in law.

    $$ HW^\top \sim F G/\sqrt{\text{fan\_in}} \ \text{(Gaussian $W$, $G$ standard normal)}, \qquad
       HW^\top \sim F Q^\top \ \text{($W$ and $Q$ Haar)} $$

    because the law of $WU^\top$ does not depend on $U$. With fewer samples $n$ than inputs $F$ is the triangle
    $(n, n)$ of `linalg.sample_frame` and only $n$ columns of $W$ are drawn; else $F = H$. A wide Haar matrix is the
    first rows of a square one. Other weights are really drawn.
    """
    fan_in = hidden.shape[-1]
    if chain.init == "gaussian":
        return (frame(hidden) @ numbers).div_(math.sqrt(fan_in))
    if chain.init == "orthogonal":
        return rotated(frame(hidden), numbers)[..., : chain.width]
    return hidden @ numbers.mT


def frame(hidden: Batches) -> Float[Tensor, "seeds samples rank"]:
    r"""$F$ with $FF^\top = HH^\top$ and at most as many columns as samples, the diagonal of a triangle not negative.

    By QR where the batch is nearly dependent: a Cholesky factor of $HH^\top$ would square what is small. The two
    differ in signs, which must not depend on the other networks.
    """
    samples, units = hidden.shape[-2:]
    if samples >= units:
        return hidden
    triangle = sample_frame(hidden)
    return triangle * torch.where(triangle.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).unsqueeze(-2)


def drawn_weights(chain: Chain, sources: Sequence[torch.Generator], fan_in: int, layers: int) -> Iterator[Weights]:
    """Weights of one layer after another, in memory that is not written to again."""
    out = chain.width
    if callable(chain.init):
        yield from drawn(chain.init, sources, (out, fan_in), layers)
    elif chain.init == "uniform":
        for numbers in uniforms(sources, (out, fan_in), layers):
            yield numbers.sub(0.5).mul_(math.sqrt(12 / fan_in))
    elif chain.init == "gaussian":
        for numbers in normals(sources, (out, fan_in), layers):
            yield numbers / math.sqrt(fan_in)
    else:
        identity = torch.eye(fan_in, dtype=torch.float64, device=sources[0].device).expand(len(sources), -1, -1)
        for numbers in normals(sources, folded_shape(fan_in, max(out, fan_in)), layers):
            rows = rotated(identity, numbers)
            # A part of them would keep all of them alive.
            yield (rows if rows.shape[-1] == out else rows[..., :out].clone()).mT
