"""How the benchmarks measure: candidates in turns in one process, medians, and the peak of memory."""

import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

# Seconds of a turn, about: what takes less is called again and again, and the median is that of a call whose code and
# numbers are at hand, as in a training loop, not that of a call after everybody else's. Fifty calls are enough.
_TURN = 0.02
_MOST_CALLS = 50


@dataclass(frozen=True)
class Cost:
    """What one call costs."""

    seconds: float  # median
    calls: int
    peak_bytes: int | None  # above what was there before the first call; None where the system does not tell


def alternating(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, warm_up: int = 1, patience: float = 20.0
) -> dict[str, Cost]:
    """Median seconds of every candidate, taken in turns so that a slow spell of the machine hits all alike.

    A candidate that has used up `patience` seconds is not called again: some peers take fifteen for one call.
    """
    peaks: dict[str, int | None] = {}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    spent, calls = dict.fromkeys(candidates, 0.0), dict.fromkeys(candidates, 1)
    for turn in range(warm_up + rounds):
        # Every other round the other way, so that nobody always follows the same neighbor.
        for name, call in list(candidates.items())[:: -1 if turn % 2 else 1]:
            if spent[name] > patience:
                continue
            before = _begin_peak() if turn == 0 else None
            seconds = [_seconds(call) for _ in range(calls[name])]
            spent[name] += sum(seconds)
            if turn == 0:
                peaks[name] = _end_peak(before)
            calls[name] = min(_MOST_CALLS, math.ceil(_TURN / statistics.median(seconds)))
            # A call so slow that it uses up the patience at once is its own warm-up.
            if turn >= warm_up or spent[name] > patience:
                times[name].extend(seconds)
    return {name: Cost(statistics.median(found), len(found), peaks[name]) for name, found in times.items()}


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def product_seconds(rows: int, inner: int, columns: int, dtype: torch.dtype = torch.float32) -> float:
    """Seconds of one product: the unit in which costs travel between machines."""
    left, right = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    repeats = max(1, round(2e8 / (2 * rows * inner * columns)))

    def products() -> None:
        for _ in range(repeats):
            left @ right

    return alternating({"product": products}, warm_up=2)["product"].seconds / repeats


def _begin_peak() -> int | None:
    """Bytes resident now, after telling the kernel to forget the highest number so far (Linux only)."""
    if not sys.platform.startswith("linux"):
        return None
    # Memory that was freed but kept by the allocator would hide what the next call takes.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return _resident("VmRSS")


def _end_peak(before: int | None) -> int | None:
    return None if before is None else max(0, _resident("VmHWM") - before)


def _resident(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")
