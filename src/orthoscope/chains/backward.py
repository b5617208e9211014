r"""The way back through many random networks, in segments that are run again from their beginnings."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain
from orthoscope.chains.memory import Memory
from orthoscope.chains.sources import State, sources
from orthoscope.chains.weights import Batches, Weights, drawn_weights
from orthoscope.metrics.gradients import log_norm

Loss: TypeAlias = Callable[[Tensor], Tensor]
Gradients = Float[Tensor, "seeds ends samples units"]
# What turns a gradient for the output of a layer, which may be overwritten, into one for its inputs, in memory given.
PullBack: TypeAlias = Callable[[Gradients, Gradients], Gradients]

# Numbers that one network keeps for the way back: 256 MB, a thousand linear layers of width and batch 100.
SEGMENT = 1 << 25
# Layers after which gradients are rescaled: few, since weights of any size may be asked for.
_RESCALED = 4


class _Layer(NamedTuple):
    """What the way back needs of one layer."""

    hidden: Batches
    weight: Weights
    output: Batches
    pull_back: PullBack


class Networks:
    """One random network for every seed, whose layers can be drawn again. They are kept in `memory`."""

    def __init__(self, starts: Batches, chain: Chain, seeds: Sequence[int], loss: Loss, memory: Memory) -> None:
        self.starts, self.chain, self.loss, self.memory = starts, chain, loss, memory
        self.sources = sources(seeds, starts.device)

    @torch.no_grad()
    def log_norms(self, ends: Sequence[int], layers: Sequence[int]) -> Float[Tensor, "seeds ends layers"]:
        r"""$\log\|\partial\,\text{loss}(h_e)/\partial W_\ell\|_F$ for every end $e$; nan where $\ell > e$."""
        positions = {layer: position for position, layer in enumerate(layers)}
        found = self.starts.new_full((len(self.sources), len(ends), len(layers)), torch.nan)
        # The ends that were passed on the way back, their gradients, and the logarithms of what these were divided by.
        passed: list[int] = []
        gradient = self.starts.new_empty(len(self.sources), 0, self.starts.shape[1], self.chain.width)
        scale = self.starts.new_empty(len(self.sources), 0)
        for layer, here in self._backwards(max(ends)):
            for end in (place for place, end in enumerate(ends) if end == layer):
                passed.append(end)
                gradient = torch.cat([gradient, self._loss_gradient(here.output).unsqueeze(1)], dim=1)
                scale = torch.nn.functional.pad(scale, (0, 1))
            pulled = here.pull_back(gradient, self.memory.place("pulled", tuple(gradient.shape)))
            if layer in positions:
                weight_gradients = pulled.mT @ here.hidden.unsqueeze(1)
                found[:, passed, positions[layer]] = log_norm(weight_gradients) + scale
            if layer == min(layers):
                break
            # Into the memory of the gradient before: all layers but the first are as wide as what they read.
            torch.bmm(pulled.flatten(1, 2), here.weight, out=gradient.view(len(gradient), -1, self.chain.width))
            if layer % _RESCALED == 0:
                scale = _rescaled_(gradient, scale, pulled)
        return found

    def _backwards(self, depth: int) -> Iterator[tuple[int, _Layer]]:
        """All layers from the last to the first, each valid until the next is asked for."""
        for segment, hidden, states in reversed(self._beginnings(depth)):
            yield from zip(reversed(segment), reversed(self._kept(segment, hidden, states)), strict=True)

    def _beginnings(self, depth: int) -> list[tuple[range, Batches, list[State]]]:
        """Layers, inputs and states of the sources at every segment: one way forth, which keeps nothing else."""
        begun, hidden = [], self.starts
        for segment in self._segments(depth):
            begun.append((segment, hidden, [source.state for source in self.sources]))
            if segment.stop <= depth:
                fan_in = hidden.shape[-1]
                once = self.memory.place("weight", (len(hidden), self.chain.width, fan_in))
                for layer, weight in zip(segment, self._weights(segment, fan_in, repeat(once)), strict=True):
                    hidden = self.chain.output_(hidden @ weight.mT, layer)
        return begun

    def _kept(self, segment: range, hidden: Batches, states: list[State]) -> list[_Layer]:
        for source, state in zip(self.sources, states, strict=True):
            source.state = state
        networks, samples, fan_in = hidden.shape
        width, length = self.chain.width, len(segment)
        weights = self.memory.stack(f"weights of {fan_in}", length, (networks, width, fan_in))
        outputs = self.memory.stack("outputs", length, (networks, samples, width))
        inputs = self.memory.place("inputs", (networks, samples, width))
        scratch = self.memory.place("scratch", (networks, samples, width))
        kept = []
        for layer, weight, output in zip(segment, self._weights(segment, fan_in, weights), outputs, strict=True):
            torch.bmm(hidden, weight.mT, out=inputs)
            pull_back = propagate_(output, self.chain, inputs, layer, scratch)
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

    def _weights(self, segment: range, fan_in: int, places: Iterable[Weights]) -> Iterator[Weights]:
        return drawn_weights(self.chain, self.sources, fan_in, len(segment), places, self.memory)

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


def _rescaled_(
    gradient: Gradients, scale: Float[Tensor, "seeds ends"], scratch: Gradients
) -> Float[Tensor, "seeds ends"]:
    """Divides by the entry that is largest in size, and returns the logarithms of all that was divided by so far."""
    # Not by `aminmax`, which needs no memory and seven times as long.
    divisor = torch.abs(gradient, out=scratch).flatten(-2).amax(-1)
    divisor = torch.where(divisor > 0, divisor, 1.0)
    gradient.div_(divisor[..., None, None])
    return scale + divisor.log()


def kept_numbers(chain: Chain, samples: int) -> int:
    """How many numbers the way back needs of a layer: the weight, the output, and slopes and what they are taken at."""
    return chain.width * (chain.width + samples * (2 if chain.function is None else 4))


def propagate_(output: Batches, chain: Chain, inputs: Batches, layer: int, scratch: Batches) -> PullBack:
    r"""$h = \phi(\alpha N(x))$, or $N(\phi(\alpha x))$, into `output`; `scratch` is as large, to compute in."""
    norm = chain.normalisation
    if norm is None:
        output.copy_(chain.activated(inputs, layer, keep=True))
        slopes = _slopes(chain, inputs, layer)
        return lambda gradient, out: torch.mul(gradient, slopes, out=out)
    if chain.norm_first:
        normed, factors = norm(inputs, output if chain.is_identity(layer) else None, scratch)
        if normed is not output:
            output.copy_(chain.activated(normed, layer, keep=True))
    else:
        normed, factors = norm(chain.activated(inputs, layer, keep=True), output, scratch)

    def through_norm(gradient: Gradients, out: Gradients) -> Gradients:
        return norm.pull_back(gradient, normed.unsqueeze(1), factors.unsqueeze(1), out)

    if chain.is_identity(layer):
        return through_norm
    slopes = _slopes(chain, normed if chain.norm_first else inputs, layer)
    if chain.norm_first:
        return lambda gradient, out: through_norm(gradient.mul_(slopes), out)
    return lambda gradient, out: through_norm(gradient, out).mul_(slopes)


def _slopes(chain: Chain, inputs: Batches, layer: int) -> Float[Tensor, "seeds 1 samples units"] | float:
    r"""$\alpha\phi'(\alpha x)$; of the identity that is a number."""
    return chain.gain_of(layer) if chain.function is None else chain.slopes(inputs, layer).unsqueeze(1)
