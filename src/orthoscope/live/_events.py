"""Server-sent events: what the server has to tell, to every page that listens.

A log that another process writes, one line of JSON a record: read as it grows.
"""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from orthoscope.report.document import DiagnosisDocument, from_data

_WAITING = 256  # events that a page may be behind before it is let go; it connects again by itself
_SILENCE = 15.0  # seconds until a comment is sent, so that a page that has gone is noticed


class Hub:
    """Pages that listen; told from the loop, or from a thread by `tell_from_thread`."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[str | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def tell(self, kind: str, content: Any) -> None:
        """Send an event to all."""
        message = event(kind, content)
        for queue in list(self._queues):
            if queue.qsize() >= _WAITING:
                self._queues.discard(queue)
                queue.put_nowait(None)
            else:
                queue.put_nowait(message)

    def tell_from_thread(self, kind: str, content: Any) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody listens
                self._loop.call_soon_threadsafe(self.tell, kind, content)

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        for queue in self._queues:
            queue.put_nowait(None)

    async def stream(self, first: list[str]) -> AsyncIterator[str]:
        """Events from now on, after `first`."""
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield "retry: 1000\n\n"
            for message in first:
                yield message
            while not self._closed:
                try:
                    news = await asyncio.wait_for(queue.get(), _SILENCE)
                except TimeoutError:
                    yield ": still here\n\n"
                    continue
                if news is None:
                    return
                yield news
        finally:
            self._queues.discard(queue)


def event(kind: str, content: Any) -> str:
    """One event; JSON has no line breaks of its own."""
    return f"event: {kind}\ndata: {json.dumps(content, allow_nan=False, separators=(',', ':'))}\n\n"


_MOST_AT_ONCE = 64 << 20  # bytes of one look; the rest is read at the next
_RECORDS = 2_000  # whose scalars are kept for pages that come late


class Follower:
    """What a log of `watch` has said so far, and what is new in it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.is_dir():
            raise ValueError(f"{str(path)!r} is a folder: give the log that a watch writes, such as run.jsonl")
        self.history: list[dict[str, Any]] = []
        self.latest: dict[str, Any] | None = None  # diagnosis
        self.problem = ""  # why the last diagnosis that does not fit is left out
        self._place = 0

    def new(self) -> list[dict[str, Any]]:
        """Records that were completed since the last look; half a line waits for its other half.

        A line that is no record is passed over: another program's log should not end this one's. A file that has become
        shorter is read from its beginning. One that is there and cannot be read raises OSError, and nothing is lost.
        """
        try:
            size = self.path.stat().st_size
            if size < self._place:
                self._place, self.history, self.latest, self.problem = 0, [], None, ""
            with self.path.open("rb") as file:
                file.seek(self._place)
                content = file.read(_MOST_AT_ONCE)
        except FileNotFoundError:
            return []  # not there yet
        whole = content[: content.rfind(b"\n") + 1]
        self._place += len(whole)
        found = [record for line in whole.splitlines() if (record := _record(line)) is not None]
        for record in found:
            self._keep(record)
        return found

    def _keep(self, record: dict[str, Any]) -> None:
        try:
            if record.get("diagnosis"):
                from_data(DiagnosisDocument, record["diagnosis"])
        except ValueError as error:  # written by an older version, or by another program
            self.problem = f"a diagnosis in {self.path.name} cannot be shown: {error}"
            record["diagnosis"] = None
        self.history.append(summary(record))
        del self.history[:-_RECORDS]
        self.latest = record.get("diagnosis") or self.latest


def summary(record: dict[str, Any]) -> dict[str, Any]:
    """A record without its layers."""
    diagnosis = record.get("diagnosis") or {}
    return {
        "step": record["step"],
        "name": str(record.get("name", "")),
        "scalars": {str(k): v for k, v in (record.get("scalars") or {}).items() if isinstance(v, int | float)},
        "verdict": diagnosis.get("verdict"),
        "summary": diagnosis.get("summary"),
        "losses": [one for one in _listed(record, "losses") if isinstance(one.get("step"), int)],
        "warnings": [one for one in _listed(record, "warnings") if isinstance(one.get("sentence"), str)],
    }


def _listed(record: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a list in a record; none in a record of before there was such a list."""
    content = record.get(name)
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _record(line: bytes) -> dict[str, Any] | None:
    """An object with a step, whose scalars and diagnosis are objects if they are there; nan and infinity are null."""
    try:
        content = json.loads(line, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    known = isinstance(content, dict) and isinstance(content.get("step"), int)
    return content if known and all(_is_object(content.get(name)) for name in ("scalars", "diagnosis")) else None


def _is_object(content: Any) -> bool:
    return content is None or isinstance(content, dict)


def _finite(digits: str) -> float | None:
    """1e999 is JSON, but no number that could be told again."""
    number = float(digits)
    return number if math.isfinite(number) else None
