"""Work beside the server: one diagnosis at a time, and curves of theory that end when newer ones are asked for.

Threads are daemons: a network that takes minutes must not keep Ctrl-C from ending the program.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

from orthoscope.diagnosis.specimens import Specimen
from orthoscope.diagnosis.unfolding import Unfoldings
from orthoscope.live.events import Hub

_PATIENCE = 20.0  # seconds that a curve may take
_EVERY = 0.03  # seconds between two parts of a curve
_EVERY_NEWS = 0.1  # seconds between two lines of progress


class Diagnoses:
    """Networks that are diagnosed on demand; the hub is told how far it is, and the document."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._busy = threading.Lock()

    def start(self, specimen: Specimen, seed: int) -> bool:
        """Begin, unless another one is under way."""
        if not self._busy.acquire(blocking=False):
            return False
        threading.Thread(target=self._run, args=(specimen, seed), daemon=True).start()
        return True

    def _run(self, specimen: Specimen, seed: int) -> None:
        done, told = 0, 0.0

        def progress(module: str, expected: int) -> None:
            nonlocal done, told
            done += 1
            if time.monotonic() - told > _EVERY_NEWS:
                told = time.monotonic()
                share = min(1.0, done / max(1, expected))
                self._hub.tell_from_thread("progress", {"share": share, "what": module or "the whole network"})

        kind: str
        content: dict[str, Any]
        try:
            kind, content = "document", specimen.diagnose(seed, progress=progress).document()
        except Exception as error:  # the user's network may raise anything, and the page should say so
            kind, content = "failure", {"error": str(error) or type(error).__name__}
        finally:
            self._busy.release()  # before anybody is told, who may ask for the next at once
        self._hub.tell_from_thread(kind, content)


class Curves:
    """Curves of theory under sliders: the newest question is answered, older ones are dropped."""

    def __init__(self) -> None:
        self._unfoldings = Unfoldings()
        self._newest = 0

    async def parts(self, target: str, samples: int, overlap: float) -> AsyncIterator[dict[str, Any]]:
        """Rows as they come, in parts: `{"rows": [...]}`, then `{"end": ...}`; or `{"error": sentence}`."""
        self._newest += 1
        mine, deadline = self._newest, time.monotonic() + _PATIENCE
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()
        gone = threading.Event()

        def wanted() -> bool:
            return mine == self._newest and not gone.is_set() and time.monotonic() < deadline

        def put(part: dict[str, Any] | None) -> None:
            with contextlib.suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(queue.put_nowait, part)

        def work() -> None:
            rows: list[dict[str, Any]] = []
            told = time.monotonic()
            try:
                for row in self._unfoldings.rows(target, samples, overlap, wanted):
                    if "depth" in row:
                        rows.append(row)
                        if time.monotonic() - told > _EVERY:
                            put({"rows": rows})
                            rows, told = [], time.monotonic()
                    else:
                        put({"rows": rows})
                        rows = []
                        put(row if "lost" in row else {"end": row})
            except (ValueError, ArithmeticError) as error:
                put({"error": str(error)})
            if mine == self._newest and time.monotonic() > deadline:
                put({"error": f"theory took longer than {_PATIENCE:.0f} seconds here, and was stopped"})
            put(None)

        threading.Thread(target=work, daemon=True).start()
        try:
            while (part := await queue.get()) is not None:
                yield part
        finally:
            gone.set()
