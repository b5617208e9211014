"""Many small matrices on a few cores."""

import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

# A megabyte of float64: what stays in a core's cache, and below what the allocator returns to the system.
_CHUNK_ELEMENTS = 1 << 17

# Multiply-adds of a task, on average, below which handing it to another thread costs more than it saves.
_WORTHWHILE = 1 << 24

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def over_cores(function: Callable[[Tensor], Tensor], stack: Tensor) -> Tensor:
    """`function(stack)` for a function that treats the matrices `(n, rows, columns)` of a stack independently.

    On a CPU the stack goes through in chunks that fit a cache, one core each. LAPACK would take it
    matrix by matrix and spend all threads on each, which is slower than one thread (measured, a
    hundred eigenvalue problems of size 100: 40 to 260 ms; this way 17 ms on 2 cores).
    """
    threads = torch.get_num_threads()
    chunks = stack.split(max(1, _CHUNK_ELEMENTS // max(1, stack[:1].numel())))
    if stack.device.type != "cpu" or stack.requires_grad or threads == 1 or len(chunks) < 2:
        return function(stack)
    return torch.cat(on_cores(function, chunks))


def balanced_over_cores(
    function: Callable[[_Task], _Result], tasks: Sequence[_Task], costs: Sequence[int]
) -> list[_Result]:
    """`function` of every task, one core each, if that keeps all cores busy: else one after another, all cores each.

    Factorisations of a few hundred rows hardly gain from a second thread, products do not lose by having one. The
    longest are begun first, and none may take longer than a fair share of the whole. `costs` are multiply-adds.
    """
    if torch.compiler.is_compiling():
        return [function(task) for task in tasks]
    threads = torch.get_num_threads()
    is_uneven, is_small = max(costs, default=0) * threads > sum(costs), sum(costs) < _WORTHWHILE * len(costs)
    if threads == 1 or is_uneven or is_small:
        return [function(task) for task in tasks]
    order = sorted(range(len(tasks)), key=lambda i: -costs[i])
    results = dict(zip(order, on_cores(function, [tasks[i] for i in order]), strict=True))
    return [results[i] for i in range(len(tasks))]


def on_cores(function: Callable[[_Task], _Result], tasks: Sequence[_Task], threads: int | None = None) -> list[_Result]:
    """`function` of every task, in this order, one core each, with gradients and inference mode as they are here.

    On as many cores as torch has threads here, unless told.
    """
    # A thread begins with gradients on, whatever the one that started it has set.
    inference, gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def as_here(task: _Task) -> _Result:
        with torch.inference_mode() if inference else torch.set_grad_enabled(gradients):
            return function(task)

    workers = _workers(torch.get_num_threads() if threads is None else threads, os.getpid())
    return list(workers.map(as_here, tasks))


@functools.cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that compute on one core each. One pool a process: a forked one has none of its parent's threads."""
    here = torch.get_num_threads()
    pool = ThreadPoolExecutor(threads, initializer=_stay_on_one_core)
    # All are started now: each lowers the default for threads to come, which is put back when the last has done so.
    everyone = threading.Barrier(threads)
    try:
        list(pool.map(lambda _: everyone.wait(), range(threads)))
    finally:
        torch.set_num_threads(here)
    return pool


@contextmanager
def on_one_core() -> Iterator[None]:
    """What this thread computes meanwhile it computes on one core; other threads, also those that start, on as many as
    before."""
    threads = torch.get_num_threads()
    _stay_on_one_core()
    try:
        # What a thread sets is also the default for threads to come: this one is gone when it has put that back.
        messenger = threading.Thread(target=torch.set_num_threads, args=(threads,))
        messenger.start()
        messenger.join()
        yield
    finally:
        torch.set_num_threads(threads)


def _stay_on_one_core() -> None:
    # A thread takes the default when it first asks, and would take it after this was said if it had not asked before.
    torch.get_num_threads()
    torch.set_num_threads(1)
