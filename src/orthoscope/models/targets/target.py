"""What a target is: a network that can be built, and a batch that fits it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor, nn

Batch: TypeAlias = Tensor | tuple[Any, ...] | dict[str, Any]


class TargetError(ValueError):
    """What the user gave, what is accepted and what to do, in one sentence."""


@runtime_checkable
class BatchSource(Protocol):
    """Makes a batch of that many samples. User code decides its own size, and may ignore `samples`."""

    def __call__(self, samples: int = ..., generator: torch.Generator | None = ...) -> Batch: ...


@dataclass(frozen=True)
class Target:
    """A network by its name. `build` and `batch` draw from the generator, or from torch's own if it is None.

    `batch` raises a TargetError that says why and what to do when no batch can be guessed.
    """

    name: str
    build: Callable[[torch.Generator | None], nn.Module]
    batch: BatchSource


@contextmanager
def drawn_from(generator: torch.Generator | None) -> Iterator[None]:
    """Makes code that draws from torch's global generators draw from this one, and puts them back after.

    None leaves the global generators in charge.
    """
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    accelerator = torch.accelerator.current_accelerator()
    devices = range(torch.accelerator.device_count())
    with torch.random.fork_rng(devices, device_type=accelerator.type if accelerator else "cuda"):
        torch.manual_seed(seed)
        yield
