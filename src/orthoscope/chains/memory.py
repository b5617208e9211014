"""Memory that the next layer and the next group of networks use again."""

import torch
from torch import Tensor


class Memory:
    """Tensors of float64 by name, for one thread.

    Every layer could take new memory instead. But what a thread frees goes back to the system, which has to clear its
    pages again, and what is kept of a layer drives everything else out of the cache: a normalisation of five networks
    of width and batch 100 then takes ten times as long, a whole layer 1.5 times.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stacks: dict[str, list[Tensor]] = {}

    def place(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """A tensor of that shape, with whatever the one of that name held before."""
        return self.stack(name, 1, shape)[0]

    def stack(self, name: str, count: int, shape: tuple[int, ...]) -> list[Tensor]:
        """So many of them."""
        stack = self._stacks.setdefault(name, [])
        if stack and stack[0].shape != shape:
            stack.clear()
        # Not one block for all: that would be the system's again after every call.
        stack.extend(torch.empty(shape, dtype=torch.float64, device=self._device) for _ in range(count - len(stack)))
        return stack[:count]
