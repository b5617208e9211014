"""Numbers that a device computes at every step, read on the host without making either wait for the other."""

from collections import deque
from typing import NamedTuple

import torch
from torch import Tensor

_MOST_WAITING = 64  # readings; then the oldest is waited for


class Reading(NamedTuple):
    """The numbers of one step."""

    step: int
    values: list[float]


class Readings:
    """A queue of small tensors on their way to the host, in order.

    A tensor of the CPU has arrived at once. One of an accelerator is copied without blocking, and is read when an event
    behind the copy has passed, usually a step later.

    Args:
        wait: Wait for every tensor, so that none is late.
    """

    def __init__(self, wait: bool = False) -> None:
        self._wait = wait
        self._waiting: deque[tuple[int, Tensor, torch.Event | None]] = deque()

    def put(self, step: int, values: Tensor) -> None:
        """Send the numbers of a step."""
        if values.device.type == "cpu":
            self._waiting.append((step, values, None))
            return
        host = values.to("cpu", non_blocking=not self._wait)
        event = None
        if not self._wait:
            event = torch.Event(device=values.device)
            event.record()
        self._waiting.append((step, host, event))

    def arrived(self, all_of_them: bool = False) -> list[Reading]:
        """Return what has arrived, oldest first; with `all_of_them`, wait for the rest."""
        found = []
        while self._waiting:
            step, host, event = self._waiting[0]
            if event is not None and not event.query():
                if not all_of_them and len(self._waiting) <= _MOST_WAITING:
                    break
                event.synchronize()
            self._waiting.popleft()
            found.append(Reading(step, host.tolist()))
        return found
