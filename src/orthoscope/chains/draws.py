"""Random numbers for many networks at once, each network with its own generator, many layers at a time."""

import math
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Draw

# Numbers that one network draws at a time, unless a layer needs more. It must not depend on how many networks
# there are: what a network draws is its own affair.
BLOCK = 1 << 14
# Uniform numbers that are made normal at a time, half a megabyte.
_CACHED = 1 << 16
# Numbers that a function of the caller is asked for at a time: it may be slow, and what is left over is lost.
_CALL = 1 << 10


def generators(seeds: Sequence[int], device: torch.device, purpose: int = 0) -> list[torch.Generator]:
    r"""A generator for every seed $s$, started at $(2654435761\,s + 12345 + \text{purpose}) \bmod 2^{32}$.

    One to one (the factor is odd), and not at $s$ itself: a batch that the caller drew from the same seed would
    otherwise be made of the same random numbers as the weights.
    """
    return [torch.Generator(device).manual_seed((2654435761 * seed + 12345 + purpose) % 2**32) for seed in seeds]


def normals(
    sources: Sequence[torch.Generator], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds rows columns"]]:
    r"""Standard normal matrices, one for every network, `layers` times; each is valid until the next is asked for.

    $$ x = \sqrt{-2\log(1-u)}\,(\cos 2\pi v, \sin 2\pi v), \qquad u, v \sim U[0, 1) $$

    By Box and Muller, because torch draws normals in float64 one number after another.
    """
    block, device = _layers_in_block(shape), sources[0].device
    even = _even(block * math.prod(shape))
    # A few networks at a time on a CPU: these numbers stay in the cache.
    together = min(len(sources), max(1, _CACHED // even)) if device.type == "cpu" else len(sources)
    cosines = torch.empty(together, even // 2, dtype=torch.float64, device=device)
    for memory in _uniform_blocks(sources, even, -(-layers // block)):
        for part in memory.split(together):
            _box_muller_(part, cosines[: len(part)])
        yield from _layers_of(memory, block, shape)[:layers]
        layers -= block


def _box_muller_(uniform: Float[Tensor, "seeds even"], cosines: Float[Tensor, "seeds half"]) -> None:
    """The first half of each row becomes the cosines, the second the sines; `cosines` is memory to compute in."""
    radius, angle = uniform.chunk(2, dim=1)
    radius.neg_().log1p_().mul_(-2).sqrt_()
    angle.mul_(2 * math.pi)
    torch.cos(angle, out=cosines)
    angle.sin_().mul_(radius)
    radius.mul_(cosines)


def uniforms(
    sources: Sequence[torch.Generator], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds rows columns"]]:
    """Matrices uniform on [0, 1), as `normals`."""
    block = _layers_in_block(shape)
    for memory in _uniform_blocks(sources, _even(block * math.prod(shape)), -(-layers // block)):
        yield from _layers_of(memory, block, shape)[:layers]
        layers -= block


def drawn(
    draw: Draw, sources: Sequence[torch.Generator], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds rows columns"]]:
    """Weights from the caller's function, as `normals`."""
    block = _layers_in_block(shape, _CALL)
    for begin in range(0, layers, block):
        weights = [draw(block, *shape, source) for source in sources]
        wrong = [tuple(weight.shape) for weight in weights if weight.shape != (block, *shape)]
        if wrong:
            raise ValueError(
                f"init returned weights of shape {wrong[0]} for {block} layers of {shape[0]} outputs "
                f"and {shape[1]} inputs: return {(block, *shape)}"
            )
        yield from torch.stack(weights).double().unbind(1)[: layers - begin]


def _uniform_blocks(
    sources: Sequence[torch.Generator], numbers: int, blocks: int
) -> Iterator[Float[Tensor, "seeds numbers"]]:
    """The same memory again and again, always drawn whole: so a deeper network begins as this one does."""
    memory = torch.empty(len(sources), numbers, dtype=torch.float64, device=sources[0].device)
    for _ in range(blocks):
        for row, source in zip(memory, sources, strict=True):
            row.uniform_(generator=source)
        yield memory


def _even(number: int) -> int:
    return number + number % 2


def _layers_of(memory: Tensor, block: int, shape: tuple[int, int]) -> tuple[Tensor, ...]:
    return memory[:, : block * math.prod(shape)].unflatten(1, (block, *shape)).unbind(1)


def _layers_in_block(shape: tuple[int, int], numbers: int = BLOCK) -> int:
    return max(1, numbers // math.prod(shape))
