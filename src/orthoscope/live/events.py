"""Server-sent events: what the server has to tell, to every page that listens."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

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
