"""Where the random numbers of a network come from: a generator of its own, so that no network depends on the others."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy
import torch
from torch import Tensor

# Of torch's generator, and of numpy's where there is one.
State: TypeAlias = tuple[Tensor, Mapping[str, Any] | None]


@final
class Source:
    """Random numbers of one network, into memory of float64 that is given, in an order that only the seed decides.

    On a CPU by numpy, whose SFC64 and ziggurat take less than half the time of torch's Mersenne twister for normals
    and let other threads run meanwhile; on an accelerator by torch. `generator` is torch's, for everything else.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self.generator = torch.Generator(device).manual_seed(seed)
        self._numpy = numpy.random.Generator(numpy.random.SFC64(seed)) if device.type == "cpu" else None

    def fill_normal_(self, place: Tensor) -> None:
        """Standard normal numbers."""
        if self._numpy is None:
            place.normal_(generator=self.generator)
        else:
            self._numpy.standard_normal(out=place.numpy())

    def fill_uniform_(self, place: Tensor) -> None:
        """Uniform numbers on [0, 1)."""
        if self._numpy is None:
            place.uniform_(generator=self.generator)
        else:
            self._numpy.random(out=place.numpy())

    @property
    def state(self) -> State:
        """From which what follows is drawn again, if it is assigned."""
        return self.generator.get_state(), None if self._numpy is None else self._numpy.bit_generator.state

    @state.setter
    def state(self, state: State) -> None:
        of_torch, of_numpy = state
        self.generator.set_state(of_torch)
        if self._numpy is not None and of_numpy is not None:
            self._numpy.bit_generator.state = of_numpy


def sources(seeds: Sequence[int], device: torch.device, purpose: int = 0) -> list[Source]:
    r"""A source for every seed $s$, started at $(2654435761\,s + 12345 + \text{purpose}) \bmod 2^{32}$.

    One to one (the factor is odd), and not at $s$ itself: a batch that the caller drew from the same seed would
    otherwise be made of the same random numbers as the weights.
    """
    return [Source((2654435761 * seed + 12345 + purpose) % 2**32, device) for seed in seeds]
