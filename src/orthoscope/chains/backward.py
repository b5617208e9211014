r"""The way back through many random networks, in segments that are run again from their beginnings."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.draws import generators
from orthoscope.chains.weights import Batches, Weights, drawn_weights
from orthoscope.metrics.gradients import log_norm

Loss: TypeAlias = Callable[[Tensor], Tensor]
Gradients = Float[Tensor, "seeds ends samples units"]

# Numbers that one network keeps for the way back: 256 MB, a thousand linear layers of width and batch 100.
SEGMENT = 1 << 25
# Layers after which gradients are rescaled: few, since weights of any size may be asked for.
_RESCALED = 4


class _Layer(NamedTuple):
    """What the way back needs of one layer."""

    hidden: Batches
    weight: Weights
    output: Batches
    pull_back: Callable[[Gradients], Gradients]


class Networks:
    """One random network for every seed, whose layers can be drawn again."""

    def __init__(self, starts: Batches, chain: Chain, seeds: Sequence[int], loss: Loss) -> None:
        self.starts, self.chain, self.loss = starts, chain, loss
        self.sources = generators(seeds, starts.device)

    @torch.no_grad()
    def log_norms(self, ends: Sequence[int], layers: Sequence[int]) -> Float[Tensor, "seeds ends layers"]:
        r"""$\log\|\partial\,\text{loss}(h_e)/\partial W_\ell\|_F$ for every end $e$; nan where $\ell > e$."""
        positions = {layer: position for position, layer in enumerate(layers)}
        found = self.starts.new_full((len(self.sources), len(ends), len(layers)), torch.nan)
        # The ends that were passed on the way back, their gradients, and the logarithms of what these were divided by.
        passed: list[int] = []
        gradient = self.starts.new_empty(len(self.sources), 0, self.starts.shape[1], self.chain.width)
        scale = self.starts.new_empty(len(self.sources), 0)
        for segment, hidden, states in reversed(self._beginnings(max(ends))):
            if segment.stop <= min(layers):
                break
            kept = self._kept(segment, hidden, states)
            for layer in reversed(segment):
                here = kept.pop()
                for end in (place for place, end in enumerate(ends) if end == layer):
                    passed.append(end)
                    gradient = torch.cat([gradient, self._loss_gradient(here.output).unsqueeze(1)], dim=1)
                    scale = torch.nn.functional.pad(scale, (0, 1))
                gradient = here.pull_back(gradient)
                if layer in positions:
                    weight_gradients = gradient.mT @ here.hidden.unsqueeze(1)
                    found[:, passed, positions[layer]] = log_norm(weight_gradients) + scale
                gradient = (gradient.flatten(1, 2) @ here.weight).unflatten(1, gradient.shape[1:3])
                if layer % _RESCALED == 0:
                    gradient, scale = _rescaled(gradient, scale)
        return found

    def _beginnings(self, depth: int) -> list[tuple[range, Batches, list[Tensor]]]:
        """Layers, inputs and generator states of every segment: one way forth, which keeps nothing else."""
        begun, hidden = [], self.starts
        for segment in self._segments(depth):
            begun.append((segment, hidden, [source.get_state() for source in self.sources]))
            if segment.stop <= depth:
                for layer, weight in zip(segment, self._weights(segment, hidden), strict=True):
                    hidden = self.chain.output(hidden @ weight.mT, layer)
        return begun

    def _kept(self, segment: range, hidden: Batches, states: list[Tensor]) -> list[_Layer]:
        for source, state in zip(self.sources, states, strict=True):
            source.set_state(state)
        kept = []
        for layer, weight in zip(segment, self._weights(segment, hidden), strict=True):
            output, pull_back = output_and_pull_back(self.chain, hidden @ weight.mT, layer)
            kept.append(_Layer(hidden, weight, output, pull_back))
            hidden = output
        return kept

    def _segments(self, depth: int) -> list[range]:
        samples, fan_in = self.starts.shape[-2:]
        # Of the shapes alone: how many networks there are must not change what each of them draws.
        length = max(1, SEGMENT // kept_numbers(self.chain, samples))
        first = 2 if fan_in != self.chain.width else 1
        rest = [range(begin, min(begin + length, depth + 1)) for begin in range(first, depth + 1, length)]
        return rest if first == 1 else [range(1, 2), *rest]

    def _weights(self, segment: range, hidden: Batches) -> Iterator[Weights]:
        return drawn_weights(self.chain, self.sources, hidden.shape[-1], len(segment))

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


def _rescaled(gradient: Gradients, scale: Float[Tensor, "seeds ends"]) -> tuple[Gradients, Float[Tensor, "seeds ends"]]:
    largest = gradient.abs().amax((-2, -1))
    divisor = torch.where(largest > 0, largest, 1.0)
    return gradient / divisor[..., None, None], scale + divisor.log()


def kept_numbers(chain: Chain, samples: int) -> int:
    """How many numbers the way back needs of a layer: the weight, the output, and slopes and what they are taken at."""
    return chain.width * (chain.width + samples * (2 if chain.function is None else 4))


def output_and_pull_back(chain: Chain, inputs: Batches, layer: int) -> tuple[Batches, Callable[[Gradients], Gradients]]:
    r"""$h = \phi(\alpha N(x))$, or $N(\phi(\alpha x))$, and what turns a gradient for $h$ into one for $x$."""
    norm = chain.normalisation
    if norm is None:
        return chain.activated(inputs, layer), _through_activation(chain, inputs, layer)
    normed, factors = norm(inputs if chain.norm_first else chain.activated(inputs, layer))
    before = _through_activation(chain, normed if chain.norm_first else inputs, layer)

    def through_norm(gradient: Gradients) -> Gradients:
        return norm.pull_back(gradient, normed.unsqueeze(1), factors.unsqueeze(1))

    if chain.norm_first:
        return chain.activated(normed, layer), lambda gradient: through_norm(before(gradient))
    return normed, lambda gradient: before(through_norm(gradient))


def _through_activation(chain: Chain, inputs: Batches, layer: int) -> Callable[[Gradients], Gradients]:
    r"""Times $\alpha\phi'(\alpha x)$; of the identity that is a number, and often 1."""
    if chain.function is None:
        gain = chain.gain_of(layer)
        return lambda gradient: gradient if gain == 1 else gain * gradient
    slopes = chain.slopes(inputs, layer).unsqueeze(1)
    return lambda gradient: gradient * slopes
