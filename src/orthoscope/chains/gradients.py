r"""Gradients of the weights of many random networks: batched over seeds, in bounded memory, at any depth."""

import threading

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.backward import SEGMENT, Loss, Networks, kept_numbers
from orthoscope.chains.chain import Chain
from orthoscope.chains.groups import over_groups
from orthoscope.chains.inputs import (
    WholeNumbers,
    check_chain,
    checked_depth,
    checked_ends,
    checked_layers,
    checked_seeds,
    checked_starts,
    whole_number,
)
from orthoscope.chains.losses import cross_entropy
from orthoscope.chains.memory import Memory

# Numbers that all groups under way keep for the way back, if one network each does not keep more: 2.7 GB.
_KEPT = 10 << 25


def simulate_gradients(
    start: Tensor,
    chain: Chain,
    depth: int,
    *,
    seeds: WholeNumbers,
    loss: str | Loss = "cross_entropy",
    layers: WholeNumbers | None = None,
    classes: int = 10,
) -> Float[Tensor, "seeds layers"]:
    r"""$\log\|\partial\,\text{loss}/\partial W_\ell\|_F$ of one random network for every seed, layers 1 to `depth`.

    `start` is as for `simulate`; `layers` are those to record, all by default. `loss` is a function of the last
    representations `(seeds, samples, units)` that returns `(seeds,)`, or "cross_entropy": of random labels, out of
    `classes`, behind a linear head of every network's own (`chains.losses`). What the function is given is overwritten
    later: it must not keep it.

    Weights are really drawn. The way back needs all of them again: beyond a segment of 256 MB they are drawn a second
    time, segment by segment, from generators put back to where they were, so memory grows with depth by one batch a
    segment only. On a CPU a group of networks is under way on every core; all of them keep 2.7 GB, or a segment each.
    Gradients are rescaled on the way, so that none overflows or vanishes.
    """
    end = checked_depth(depth, least=1)
    return _log_norms(start, chain, [end], checked_layers(layers, end, first=1), seeds, loss, classes)[:, 0]


def gradients_by_depth(
    start: Tensor,
    chain: Chain,
    depths: WholeNumbers,
    *,
    seeds: WholeNumbers,
    loss: str | Loss = "cross_entropy",
    layer: int = 1,
    classes: int = 10,
) -> Float[Tensor, "seeds depths"]:
    r"""$\log\|\partial\,\text{loss}/\partial W_\ell\|_F$ of one layer, for networks that end at each of `depths`.

    Each has the law of `simulate_gradients`; those of one seed share their first layers and their head, so all
    depths together cost one way forth and one way back.
    """
    only = whole_number("layer", layer)
    return _log_norms(start, chain, checked_ends(depths, only), [only], seeds, loss, classes)[:, :, 0]


def _log_norms(
    start: Tensor,
    chain: Chain,
    ends: list[int],
    layers: list[int],
    seeds: WholeNumbers,
    loss: str | Loss,
    classes: int,
) -> Float[Tensor, "seeds ends layers"]:
    check_chain(chain)
    networks, classes = checked_seeds(seeds), whole_number("classes", classes)
    starts = checked_starts(start, networks, chain.normalisation)
    if not callable(loss) and loss != "cross_entropy":
        raise ValueError(f"unknown loss {loss!r}: give 'cross_entropy', or a function of the last representations")

    own_to_thread = threading.local()

    def norms(group: slice) -> Tensor:
        own = networks[group]
        if not hasattr(own_to_thread, "memory"):
            own_to_thread.memory = Memory(starts.device)
        chosen = cross_entropy(own, starts[group], chain.width, classes) if isinstance(loss, str) else loss
        return Networks(starts[group], chain, own, chosen, own_to_thread.memory).log_norms(ends, layers)

    samples, width = starts.shape[-2], chain.width
    return torch.cat(
        over_groups(
            norms,
            len(networks),
            numbers=min(SEGMENT, max(ends) * kept_numbers(chain, samples)),
            layer=width * max(width, samples),
            multiplications=_multiplications(chain, samples),
            depth=max(ends),
            most=max(SEGMENT, _KEPT // torch.get_num_threads()),
            device=starts.device,
        )
    )


def _multiplications(chain: Chain, samples: int) -> int:
    """Of a layer: the batch forth and its gradient back, and Haar weights, which are products of reflections."""
    return chain.width**2 * (2 * samples + (chain.width if chain.init == "orthogonal" else 0))
