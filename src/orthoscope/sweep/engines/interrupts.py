"""Ctrl-C belongs to the driver of a sweep, and to none of its workers."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; a worker that is starting must not die of it with a traceback.

    What is started meanwhile, processes and threads and the processes that these start, never hears of it.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    # Its start would release the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
