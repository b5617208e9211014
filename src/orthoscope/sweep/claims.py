"""Coordination of the processes that share a store: claims of runs, and a ledger of events.

A claim is a file that the worker keeps locked, with one byte for every time the run was started. The lock ends with its
process, so a claim that can be locked and is not empty belongs to a worker that was killed; the bytes count how often.
Where there are no locks (Windows, some network disks) a run may be executed twice, with the same result.

The ledger has one line of JSON per event, appended by workers and driver. It is a log, not the evidence: results are in
the runs, and a row that cannot be written (a full disk) is left out.
"""

import contextlib
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

CLAIMS = "claims"
LEDGER = "ledger.jsonl"


class Claim:
    """The exclusive right to execute a run; `begun` is how often it was started and did not end."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.begun = os.fstat(handle).st_size

    def begin(self) -> None:
        """Count one more start; it stays counted if the process is killed."""
        os.lseek(self._handle, 0, os.SEEK_END)
        os.write(self._handle, b".")
        self.begun += 1


@contextmanager
def claimed(store: Path, key: str) -> Iterator[Claim | None]:
    """Hold the claim of a run, and remove it at the end of the block; None if another process holds it."""
    path = store / CLAIMS / key
    handle = _locked(path)
    if handle is None:
        yield None
        return
    try:
        yield Claim(handle)
    finally:
        # Removed before it is unlocked: a process that opened the file in between finds that it is gone.
        path.unlink(missing_ok=True)
        os.close(handle)


def times_begun(store: Path, key: str) -> int:
    """Return how often a run was started and did not end."""
    try:
        return (store / CLAIMS / key).stat().st_size
    except FileNotFoundError:
        return 0


def forget(store: Path, key: str) -> None:
    """Remove the claim of a killed worker; a claim that is held stays."""
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
    """Return whether no other process holds the lock; True also where there are no locks."""
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


class Ledger(NamedTuple):
    """The rows in the order in which they were written, and the lines that are no rows, by number."""

    rows: list[dict[str, Any]]
    problems: list[str]


def note(store: Path, event: str, **row: Any) -> None:
    """Append a row: time, event, what is given, host and process."""
    when = datetime.now(UTC).isoformat(timespec="milliseconds")
    content = {"time": when, "event": event, **row, "host": platform.node(), "process": os.getpid()}
    line = json.dumps(content, allow_nan=False).encode() + b"\n"
    with contextlib.suppress(OSError):
        handle = os.open(store / LEDGER, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            # One write per row: appends of several processes do not mix. After a torn row a new line is started.
            size = os.lseek(handle, 0, os.SEEK_END)
            os.lseek(handle, max(0, size - 1), os.SEEK_SET)
            os.write(handle, line if os.read(handle, 1) in (b"", b"\n") else b"\n" + line)
        finally:
            os.close(handle)


def read_ledger(store: str | Path) -> Ledger:
    """Return all rows of a store's ledger; torn lines are listed as problems.

    Args:
        store: Folder of the sweep.
    """
    path, ledger = Path(store) / LEDGER, Ledger([], [])
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # torn, or nested more deeply than any row
            ledger.problems.append(f"line {number} of {path} is not whole: {error}")
            continue
        if isinstance(row, dict) and "event" in row:
            ledger.rows.append(row)
        else:
            ledger.problems.append(f"line {number} of {path} is no row of a ledger")
    return ledger
