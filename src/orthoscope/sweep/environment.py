"""How a worker computes: on one thread, so that a result depends neither on the machine's cores nor on the engine."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
# On some processors products in bfloat16, as torch.optim.Muon takes them, die with an illegal instruction without it.
INSTRUCTIONS, ENOUGH = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"


def one_thread() -> None:
    """One thread for torch, whether it is loaded already or will be; torch is not imported for it."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    os.environ.setdefault(INSTRUCTIONS, ENOUGH)
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@contextmanager
def restored() -> Iterator[None]:
    """Give a process that is no worker its threads and variables back."""
    names = (*THREADS, INSTRUCTIONS)
    before = {name: os.environ.get(name) for name in names}
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch is not None else None
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
        if torch is not None and threads is not None:
            torch.set_num_threads(threads)
