r"""What a layer of random weights makes of a batch, with as few random numbers as its law needs."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.draws import drawn, layer_by_layer, normal_blocks, uniform_blocks
from orthoscope.chains.memory import Memory
from orthoscope.chains.rotations import Reflections, folded_shape, haar_reflections, rotated
from orthoscope.chains.sources import Source
from orthoscope.linalg import sample_frame

Batches = Float[Tensor, "seeds samples units"]
Weights = Float[Tensor, "seeds out fan_in"]


def layers_in_law(
    chain: Chain, sources: Sequence[Source], samples: int, fan_in: int, layers: int, memory: Memory
) -> Iterator[Float[Tensor, "seeds rows columns"] | Reflections]:
    """What `preactivations` needs of one random layer after another."""
    if chain.init == "gaussian":
        return layer_by_layer(normal_blocks(sources, shape_in_law(chain, samples, fan_in), layers))
    if chain.init == "orthogonal":
        return haar_reflections(sources, *_frame_in_law(chain, samples, fan_in), layers, memory)
    place = memory.place("weight", (len(sources), chain.width, fan_in))
    return drawn_weights(chain, sources, fan_in, layers, repeat(place), memory)


def shape_in_law(chain: Chain, samples: int, fan_in: int) -> tuple[int, int]:
    """How many random numbers a layer takes."""
    if chain.init == "gaussian":
        return min(samples, fan_in), chain.width
    if chain.init == "orthogonal":
        return folded_shape(*_frame_in_law(chain, samples, fan_in))
    return chain.width, fan_in


def _frame_in_law(chain: Chain, samples: int, fan_in: int) -> tuple[int, int]:
    """Columns and rows of the orthonormal ones that stand for a Haar weight, as `preactivations` says."""
    return min(samples, fan_in), max(chain.width, fan_in)


def preactivations(
    chain: Chain,
    hidden: Batches,
    layer: Float[Tensor, "seeds rows columns"] | Reflections,
    out: Float[Tensor, "seeds samples out"],
    memory: Memory,
) -> Float[Tensor, "seeds samples out"]:
    r"""$HW^\top$ for a batch $H = FU$, $UU^\top = I$, in law; in `out`, or in memory that the next call uses again.

    $$ HW^\top \sim F G/\sqrt{\text{fan\_in}} \ \text{(Gaussian $W$, $G$ standard normal)}, \qquad
       HW^\top \sim F Q^\top \ \text{($W$ and $Q$ Haar)} $$

    because the law of $WU^\top$ does not depend on $U$. With fewer samples $n$ than inputs $F$ is the triangle
    $(n, n)$ of `linalg.sample_frame` and only $n$ columns of $W$ are drawn; else $F = H$. A wide Haar matrix is the
    first rows of a square one. Other weights are really drawn.
    """
    fan_in = hidden.shape[-1]
    if isinstance(layer, Reflections):
        wide = fan_in > chain.width
        return rotated(frame(hidden), layer, memory, None if wide else out)[..., : chain.width]
    if chain.init == "gaussian":
        return torch.bmm(frame(hidden), layer, out=out).div_(math.sqrt(fan_in))
    return torch.bmm(hidden, layer.mT, out=out)


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


def drawn_weights(
    chain: Chain,
    sources: Sequence[Source],
    fan_in: int,
    layers: int,
    places: Iterable[Weights],
    memory: Memory,
) -> Iterator[Weights]:
    """Weights of one layer after another, each in the next of the `places`, which are laid out by rows."""
    out = chain.width
    if callable(chain.init):
        for weight, place in zip(drawn(chain.init, sources, (out, fan_in), layers), places, strict=False):
            yield place.copy_(weight)
    elif chain.init == "uniform":
        for numbers, place in zip(layer_by_layer(uniform_blocks(sources, (out, fan_in), layers)), places, strict=False):
            yield torch.sub(numbers, 0.5, out=place).mul_(math.sqrt(12 / fan_in))
    elif chain.init == "gaussian":
        for numbers, place in zip(layer_by_layer(normal_blocks(sources, (out, fan_in), layers)), places, strict=False):
            yield torch.div(numbers, math.sqrt(fan_in), out=place)
    else:
        device = sources[0].generator.device
        identity = torch.eye(fan_in, dtype=torch.float64, device=device).expand(len(sources), -1, -1)
        reflections = haar_reflections(sources, fan_in, max(out, fan_in), layers, memory)
        for reflected, place in zip(reflections, places, strict=False):
            # What is rotated are the columns of the weight.
            columns = place.view(len(sources), fan_in, out)
            if out >= fan_in:
                yield rotated(identity, reflected, memory, columns).mT
            else:
                yield columns.copy_(rotated(identity, reflected, memory)[..., :out]).mT
