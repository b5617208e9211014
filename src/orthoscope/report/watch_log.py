"""The log of a training that is watched: one whole line of JSON a record, appended, so that a crash loses none."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RECORD_SCHEMA = "orthoscope.watch-record/1"
_BLOCK = 1 << 16


class WatchLog:
    """Appends records to a file; a line is written at once and is on disk when `append` returns."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(
                f"cannot write {str(path)!r}: there is no folder {str(self.path.absolute().parent)!r}"
            )
        if self.path.is_dir():
            raise ValueError(f"{str(path)!r} is a folder: give the name of a file, such as run.jsonl")
        if self.path.exists():
            self._continue()
        self._torn = False  # an append has failed, and may have left half a line

    def append(self, record: dict[str, Any]) -> None:
        """Write one record, with its schema, as one line."""
        line = json.dumps({"schema": RECORD_SCHEMA, **record}, allow_nan=False, separators=(",", ":")) + "\n"
        if self._torn and self.path.exists():
            self._continue()
        self._torn = True
        # One call with O_APPEND: a reader, or another process that writes here, sees the whole line or nothing of it.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            content = line.encode()
            while content:
                content = content[os.write(descriptor, content) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._torn = False

    def _continue(self) -> None:
        """Go on with a log: refuse what is none, and take away the half of a line that a crash has left."""
        with self.path.open("rb") as file:
            first = file.readline()
        if first.endswith(b"\n") and _record(first) is None:
            raise ValueError(f"{str(self.path)!r} is not a log of a watch: give another name, or remove it")
        with self.path.open("r+b") as file:
            end = whole = file.seek(0, os.SEEK_END)
            while whole > 0:
                start = max(0, whole - _BLOCK)
                file.seek(start)
                newline = file.read(whole - start).rfind(b"\n")
                whole = start + newline + 1 if newline >= 0 else start
                if newline >= 0:
                    break
            if whole == end:
                return
            file.seek(whole)
            rest = file.read()
            if _record(rest) is not None:
                file.write(b"\n")
            elif whole == 0 and not rest.lstrip().startswith(b'{"schema":"orthoscope.watch-record'):
                raise ValueError(f"{str(self.path)!r} is not a log of a watch: give another name, or remove it")
            else:
                file.truncate(whole)


def read_watch_log(path: str | os.PathLike[str], start: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """The records from byte `start` on, each with the place where the next begins; half a line at the end is left."""
    with Path(path).open("rb") as file:
        place = file.seek(start)
        for line in file:
            if not line.endswith(b"\n"):
                return
            place += len(line)
            record = _record(line)
            if record is None:
                raise ValueError(f"{str(path)!r} is not a log of a watch: byte {place - len(line)} begins no record")
            yield record, place


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        content = json.loads(line)
    except ValueError:
        return None
    known = isinstance(content, dict) and content.get("schema") == RECORD_SCHEMA
    return content if known else None
