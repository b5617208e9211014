"""What happened and when: one line of JSON an event, appended by workers and driver alike.

The ledger is an account, not the evidence: results are in the runs. A row that cannot be written (a full disk) is left
out.
"""

import contextlib
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

LEDGER = "ledger.jsonl"


class Ledger(NamedTuple):
    """The rows in the order in which they were written, and the lines that are no rows, with their numbers."""

    rows: list[dict[str, Any]]
    problems: list[str]


def note(store: Path, event: str, **row: Any) -> None:
    """Append one row: when, what, by which process of which machine, and whatever else is given."""
    when = datetime.now(UTC).isoformat(timespec="milliseconds")
    content = {"time": when, "event": event, **row, "host": platform.node(), "process": os.getpid()}
    line = json.dumps(content, allow_nan=False).encode() + b"\n"
    with contextlib.suppress(OSError):
        handle = os.open(store / LEDGER, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            # One write a row: appends of several processes do not mix. After a torn one a new line is begun.
            os.write(handle, line if _ends_whole(handle) else b"\n" + line)
        finally:
            os.close(handle)


def read_ledger(store: str | Path) -> Ledger:
    """Everything that was noted in a store; a torn line is named and left out."""
    path, ledger = Path(store) / LEDGER, Ledger([], [])
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:  # torn, or nested deeper than any row
            ledger.problems.append(f"line {number} of {path} is not whole: {error}")
            continue
        if isinstance(row, dict) and "event" in row:
            ledger.rows.append(row)
        else:
            ledger.problems.append(f"line {number} of {path} is no row of a ledger")
    return ledger


def _ends_whole(handle: int) -> bool:
    size = os.lseek(handle, 0, os.SEEK_END)
    if size == 0:
        return True
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) == b"\n"
