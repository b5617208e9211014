"""Who is at work on a run: a file that the worker keeps locked, with one byte for every time the run was begun.

The lock dies with its process, so a claim that can be locked and is not empty belongs to a worker that was killed; the
bytes count how often. Where there are no locks (Windows, some network disks) a run may be done twice, never wrongly.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLAIMS = "claims"


class Claim:
    """The right to do a run; `begun` is how often it was begun and not ended."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.begun = os.fstat(handle).st_size

    def begin(self) -> None:
        """Count one more beginning; it stays counted if the process is killed."""
        os.lseek(self._handle, 0, os.SEEK_END)
        os.write(self._handle, b".")
        self.begun += 1


@contextmanager
def claimed(store: Path, key: str) -> Iterator[Claim | None]:
    """Hold the claim of a run, which disappears when the block is left; None if another process holds it."""
    path = store / CLAIMS / key
    handle = _locked(path)
    if handle is None:
        yield None
        return
    try:
        yield Claim(handle)
    finally:
        # Removed before the lock is given up: whoever opened the file in between finds that it is no longer the one.
        path.unlink(missing_ok=True)
        os.close(handle)


def times_begun(store: Path, key: str) -> int:
    """How often a run was begun and not ended."""
    try:
        return (store / CLAIMS / key).stat().st_size
    except FileNotFoundError:
        return 0


def forget(store: Path, key: str) -> None:
    """Remove a claim that a killed worker left behind; one that is held stays."""
    if times_begun(store, key):
        with claimed(store, key):
            pass


def _locked(path: Path) -> int | None:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not _lock(handle):
                os.close(handle)
                return None
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether nobody else holds it; True also where nothing can be locked."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
