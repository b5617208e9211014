"""Random matrices for many networks at once, each network with its own source, many layers at a time."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Draw
from orthoscope.chains.sources import Source

# Numbers that one network draws at a time, unless a layer needs more. It must not depend on how many networks
# there are: what a network draws is its own affair.
BLOCK = 1 << 14
# Numbers that a function of the caller is asked for at a time: it may be slow, and what is left over is lost.
_CALL = 1 << 10


def normal_blocks(
    sources: Sequence[Source], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds layers rows columns"]]:
    """Standard normal matrices of some layers, until there are `layers`; each block is valid until the next."""
    return _blocks(Source.fill_normal_, sources, shape, layers)


def uniform_blocks(
    sources: Sequence[Source], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds layers rows columns"]]:
    """Matrices uniform on [0, 1), as `normal_blocks`."""
    return _blocks(Source.fill_uniform_, sources, shape, layers)


def layer_by_layer(
    blocks: Iterator[Float[Tensor, "seeds layers rows columns"]],
) -> Iterator[Float[Tensor, "seeds rows columns"]]:
    """One layer of all networks after another; each is valid until the next block."""
    return (layer for block in blocks for layer in block.unbind(1))


def drawn(
    draw: Draw, sources: Sequence[Source], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds rows columns"]]:
    """Weights from the caller's function, one layer after another."""
    block = _layers_in_block(shape, _CALL)
    for begin in range(0, layers, block):
        weights = [draw(block, *shape, source.generator) for source in sources]
        wrong = [tuple(weight.shape) for weight in weights if weight.shape != (block, *shape)]
        if wrong:
            raise ValueError(
                f"init returned weights of shape {wrong[0]} for {block} layers of {shape[0]} outputs "
                f"and {shape[1]} inputs: return {(block, *shape)}"
            )
        yield from torch.stack(weights).double().unbind(1)[: layers - begin]


def _blocks(
    fill_: Callable[[Source, Tensor], None], sources: Sequence[Source], shape: tuple[int, int], layers: int
) -> Iterator[Float[Tensor, "seeds layers rows columns"]]:
    """The same memory again and again, always drawn whole: so a deeper network begins as this one does."""
    block = _layers_in_block(shape)
    memory = torch.empty(len(sources), block, *shape, dtype=torch.float64, device=sources[0].generator.device)
    for begin in range(0, layers, block):
        for own, source in zip(memory, sources, strict=True):
            fill_(source, own)
        yield memory[:, : layers - begin]


def _layers_in_block(shape: tuple[int, int], numbers: int = BLOCK) -> int:
    return max(1, numbers // math.prod(shape))
