"""Independent trainings on several processes of one thread each."""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import starmap
from typing import Any, TypeVar

from orthoscope.sweep.engines.local import prepare
from orthoscope.sweep.environment import ENOUGH, INSTRUCTIONS

Result = TypeVar("Result")


def mapped(function: Callable[..., Result], arguments: Sequence[tuple[Any, ...]], workers: int) -> list[Result]:
    """`function(*a)` for every `a`, in order; 0 workers: here, which needs the variable that workers are given.

    Every worker computes on one thread, so a result does not depend on how many there are. The variable limits
    what instructions oneDNN uses and is read once, when torch first multiplies: a fresh process is sure to see it.
    """
    if workers == 0:
        if INSTRUCTIONS not in os.environ:
            raise ValueError(
                f"workers=0 computes in this process, which was started without {INSTRUCTIONS}={ENOUGH}, and products "
                "in bfloat16 could end it: set the variable before Python starts, or use workers=1"
            )
        return list(starmap(function, arguments))
    before = os.environ.get(INSTRUCTIONS)
    os.environ.setdefault(INSTRUCTIONS, ENOUGH)
    try:
        fresh = multiprocessing.get_context("spawn")
        # As a worker of a sweep prepares itself: one thread, and it does not outlive this process.
        reader, writer = fresh.Pipe(duplex=False)
        with writer, ProcessPoolExecutor(workers, fresh, prepare, (reader, os.getpid())) as pool:
            return list(pool.map(function, *zip(*arguments, strict=True)))
    finally:
        if before is None:
            del os.environ[INSTRUCTIONS]
