r"""Products of random matrices as products of triangles, $W_\ell Q_{\ell-1} = Q_\ell R_\ell$."""

import math
from collections.abc import Iterator, Sequence
from itertools import repeat

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.draws import layer_by_layer, normal_blocks
from orthoscope.chains.memory import Memory
from orthoscope.chains.sources import Source
from orthoscope.chains.weights import drawn_weights

Triangles = Float[Tensor, "seeds rank rank"]


def triangles(
    chain: Chain, sources: Sequence[Source], frame: Float[Tensor, "seeds fan_in rank"], layers: int
) -> Iterator[Triangles]:
    r"""$R_1, R_2, \dots$ of $W_\ell Q_{\ell-1} = Q_\ell R_\ell$, $Q_0$ the `frame`: gains are left out.

    The law of a Gaussian $WQ$ does not depend on $Q$: its triangle has independent entries
    $R_{ij} \sim \mathcal N(0, 1/\text{fan\_in})$ above the diagonal, and $R_{jj}$ is the length of the $d-j+1$
    normals that are left (Bartlett, 1933); neither $W$ nor $Q$ is needed.
    """
    fan_in, rank = frame.shape[-2:]
    alone = 1 if fan_in != chain.width and layers else 0
    for inputs, count in ((fan_in, alone), (chain.width, layers - alone)):
        if chain.init == "gaussian":
            for numbers in layer_by_layer(normal_blocks(sources, (rank, chain.width), count)):
                lengths = torch.linalg.vector_norm(numbers.triu(), dim=-1)
                yield (numbers[..., :rank].tril(-1).mT + torch.diag_embed(lengths)) / math.sqrt(inputs)
        else:
            memory = Memory(frame.device)
            place = memory.place("weight", (len(sources), chain.width, inputs))
            for weight in drawn_weights(chain, sources, inputs, count, repeat(place), memory):
                frame, triangle = torch.linalg.qr(weight @ frame)
                yield triangle
