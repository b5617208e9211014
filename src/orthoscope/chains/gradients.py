"""Gradients of the weights of many random networks: batched over seeds, in bounded memory, at any depth.

The cost grows linearly with depth and number of networks: a layer of width d and n samples costs nd² forward and nd²
backward, and nd² more for every further loss; Haar weights cost d³. The backward pass needs all weights and
representations again. Layers are therefore cut into segments: the forward pass keeps only the first batch of every
segment and the states of the generators there, and the backward pass runs one segment at a time again. Memory grows
with depth by one batch per segment.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Batches, Chain, PullBack
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
from orthoscope.chains.simulation import groups
from orthoscope.chains.weights import State, Weights, drawn_weights, random_streams
from orthoscope.metrics.gradients import log_norm

Loss: TypeAlias = Callable[[Tensor], Tensor]

# Numbers that one network keeps for the backward pass: 256 MB, a thousand linear layers of width and batch 100. It
# decides where segments begin and thereby what is drawn, so it must not depend on the number of networks.
SEGMENT = 1 << 25
# Bytes that a group of networks keeps for the backward pass, unless one network alone keeps more.
GROUP_BYTES = 1 << 30
# Gradients are rescaled every so many layers: often, since weights may be of any size.
_RESCALED = 4
# Heads and labels come from streams of their own: the weights do not depend on the loss.
_HEADS = 1 << 31


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
    r"""Return $\log\|\partial\,\text{loss}/\partial W_\ell\|_F$ of one random network per seed, layers 1 to `depth`.

    Gradients are rescaled during the backward pass, so that none overflows or vanishes. Weights are drawn in full, and
    a second time for the backward pass where a network of that depth would keep more than 256 MB.

    Args:
        start: A batch `(samples, units)` for all networks, or one for each, `(seeds, samples, units)`.
        chain: The layers.
        depth: Number of layers.
        seeds: One for every network.
        loss: A function of the last representations `(seeds, samples, units)` that returns `(seeds,)`, or
            "cross_entropy": of random labels behind a random linear head.
        layers: Layers to record; all by default.
        classes: Number of classes of the cross-entropy.
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
    r"""Return $\log\|\partial\,\text{loss}/\partial W_\ell\|_F$ of one layer, for networks of each of the `depths`.

    Each has the law of `simulate_gradients`; those of one seed share their first layers and their head, so all depths
    together take one forward and one backward pass.

    Args:
        start: As for `simulate_gradients`.
        chain: The layers.
        depths: Numbers of layers, each once.
        seeds: One for every network.
        loss: As for `simulate_gradients`.
        layer: $\ell$, from 1.
        classes: Number of classes of the cross-entropy.
    """
    only = whole_number("layer", layer)
    return _log_norms(start, chain, checked_ends(depths, only), [only], seeds, loss, classes)[:, :, 0]


def cross_entropy(seeds: Sequence[int], starts: Batches, width: int, classes: int) -> Loss:
    r"""Return $h \mapsto -\frac1n\sum_i \log\operatorname{softmax}(Ah_i)_{y_i}$ of `(seeds, samples, units)`.

    $A_{ij} \sim \mathcal N(0, 1/\text{width})$ and labels $y_i$ uniform among the `classes`, drawn for each network.
    """
    if classes < 2:
        raise ValueError(f"classes is {classes}: cross-entropy needs at least 2")
    device, heads, labels = starts.device, [], []
    for stream in random_streams(seeds, device, _HEADS):
        heads.append(torch.randn(classes, width, generator=stream.generator, dtype=torch.float64, device=device))
        labels.append(torch.randint(classes, (starts.shape[-2], 1), generator=stream.generator, device=device))
    head, label = torch.stack(heads) / math.sqrt(width), torch.stack(labels)

    def loss(hidden: Tensor) -> Tensor:
        return -(hidden @ head.mT).log_softmax(-1).gather(-1, label).mean((-2, -1))

    return loss


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
    starts = checked_starts(start, networks, chain.normalization)
    if not callable(loss) and loss != "cross_entropy":
        raise ValueError(f"unknown loss {loss!r}: give 'cross_entropy', or a function of the last representations")
    held = 8 * min(SEGMENT, max(ends) * kept_numbers(chain, starts.shape[-2]))
    found = []
    for group in groups(len(networks), held, GROUP_BYTES):
        own, batches = networks[group], starts[group]
        chosen = cross_entropy(own, batches, chain.width, classes) if isinstance(loss, str) else loss
        found.append(_Networks(batches, chain, own, chosen).log_norms(ends, layers))
    return torch.cat(found)


def kept_numbers(chain: Chain, samples: int) -> int:
    """Return how many numbers a network keeps of a layer: the weight, and up to four batches."""
    return chain.width * (chain.width + samples * (2 if chain.function is None else 4))


class _Layer(NamedTuple):
    """What the backward pass needs of one layer."""

    hidden: Batches
    weight: Weights
    output: Batches
    pull_back: PullBack


class _Segment(NamedTuple):
    """Consecutive layers, their input, and the states of the streams that their weights are drawn from."""

    layers: range
    hidden: Batches
    states: list[State]


class _Networks:
    """A group of random networks, one per seed, whose layers can be drawn again."""

    def __init__(self, starts: Batches, chain: Chain, seeds: Sequence[int], loss: Loss) -> None:
        self.starts, self.chain, self.loss = starts, chain, loss
        self.streams = random_streams(seeds, starts.device)

    @torch.no_grad()
    def log_norms(self, ends: Sequence[int], layers: Sequence[int]) -> Float[Tensor, "seeds ends layers"]:
        r"""Return $\log\|\partial\,\text{loss}(h_e)/\partial W_\ell\|_F$ for every end $e$; nan where $\ell > e$."""
        positions = {layer: position for position, layer in enumerate(layers)}
        found = self.starts.new_full((len(self.streams), len(ends), len(layers)), torch.nan)
        # The ends passed so far, the gradients of their losses, and the logarithms of what these were divided by.
        passed: list[int] = []
        gradient = self.starts.new_empty(len(self.streams), 0, self.starts.shape[1], self.chain.width)
        scale = self.starts.new_empty(len(self.streams), 0)
        for layer, (hidden, weight, output, pull_back) in self._layers_backward(max(ends)):
            if layer in ends:
                passed.append(ends.index(layer))
                gradient = torch.cat([gradient, self._loss_gradient(output).unsqueeze(1)], dim=1)
                scale = torch.nn.functional.pad(scale, (0, 1))
            pulled = pull_back(gradient)
            if layer in positions:
                found[:, passed, positions[layer]] = log_norm(pulled.mT @ hidden.unsqueeze(1)) + scale
            if layer == min(layers):
                break
            gradient = torch.bmm(pulled.flatten(1, 2), weight).unflatten(1, pulled.shape[1:3])
            if layer % _RESCALED == 0:
                largest = gradient.abs().amax((-2, -1))
                divisor = torch.where(largest > 0, largest, 1.0)
                gradient.div_(divisor[..., None, None])
                scale = scale + divisor.log()
        return found

    def _layers_backward(self, depth: int) -> Iterator[tuple[int, _Layer]]:
        """Yield all layers from the last to the first; a segment is freed as it is passed."""
        segments, hidden = [], self.starts
        for layers in self._ranges(depth):
            segments.append(_Segment(layers, hidden, [stream.state for stream in self.streams]))
            if layers.stop <= depth:
                for layer in self._run(layers, hidden):
                    hidden = layer.output
        while segments:
            segment = segments.pop()
            for stream, state in zip(self.streams, segment.states, strict=True):
                stream.state = state
            kept = list(self._run(segment.layers, segment.hidden))
            for number in reversed(segment.layers):
                yield number, kept.pop()

    def _run(self, layers: range, hidden: Batches) -> Iterator[_Layer]:
        """Draw consecutive layers and run them."""
        weights = drawn_weights(self.chain, self.streams, hidden.shape[-1], len(layers))
        for number, weight in zip(layers, weights, strict=True):
            output, pull_back = self.chain.layer(torch.bmm(hidden, weight.mT), number)
            yield _Layer(hidden, weight, output, pull_back)
            hidden = output

    def _ranges(self, depth: int) -> list[range]:
        """Cut layers 1 to `depth` into segments; a first layer of another shape is one by itself."""
        samples, fan_in = self.starts.shape[-2:]
        length = max(1, SEGMENT // kept_numbers(self.chain, samples))
        first = 2 if fan_in != self.chain.width else 1
        rest = [range(begin, min(begin + length, depth + 1)) for begin in range(first, depth + 1, length)]
        return rest if first == 1 else [range(1, 2), *rest]

    def _loss_gradient(self, hidden: Batches) -> Batches:
        with torch.enable_grad():
            last = hidden.detach().requires_grad_(True)
            losses = self.loss(last)
            if losses.shape != hidden.shape[:1]:
                raise ValueError(
                    f"the loss returned shape {tuple(losses.shape)} for {len(hidden)} networks: it must return (seeds,)"
                )
            (gradient,) = torch.autograd.grad(losses.sum(), last)
        return gradient
