"""One process at a time in a folder."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(folder: Path, waiting: Callable[[], None]) -> Iterator[bool]:
    """Hold the lock of an existing folder; `waiting` is called once if another process has it.

    The folder itself is locked, so no lock file stays behind, and the lock dies with its process. Yields
    False where there are no such locks (Windows, some network disks): the work must then be safe to do twice.
    """
    if sys.platform == "win32":
        yield False
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = True
        except BlockingIOError:
            waiting()
            fcntl.flock(handle, fcntl.LOCK_EX)
            held = True
        except OSError:
            held = False
        yield held
    finally:
        os.close(handle)
