"""What the server answers: the page, curves of theory, diagnoses, and a stream of events."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from orthoscope.activations import ACTIVATIONS
from orthoscope.diagnosis.targets import NamedNetwork
from orthoscope.init import SCHEMES
from orthoscope.live._events import Follower, Hub, event, summary
from orthoscope.live._guard import LARGEST_BODY
from orthoscope.live._work import Curves, Diagnoses
from orthoscope.models.blocks import VECTOR_NORMS
from orthoscope.report.pages import viewer_page

_LOOK_EVERY = 0.5  # seconds between two looks at a log
_MOST_SAMPLES = 4_096
_NEEDS_SCRIPT = "This page is drawn by its script, which did not run here."


class Exploration:
    """One server's state, and its routes."""

    def __init__(self, token: str, follow: str | None = None) -> None:
        self.hub = Hub()
        self._token = token
        self._follower = None if follow is None else Follower(follow)
        self._unreadable = ""  # why the log cannot be read just now
        self._diagnoses = Diagnoses(self.hub)
        self._curves = Curves()

    def app(self) -> Starlette:
        routes = [
            Route("/", self.page),
            Route("/api/theory", self.theory),
            Route("/api/diagnose", self.diagnose, methods=["POST"]),
            Route("/api/events", self.events),
        ]
        return Starlette(routes=routes)

    async def page(self, _: Request) -> Response:
        live = {
            "token": self._token,
            "follow": None if self._follower is None else self._follower.path.name,
            "activations": list(ACTIVATIONS),
            "norms": list(VECTOR_NORMS),
            "inits": list(SCHEMES),
        }
        return HTMLResponse(viewer_page([], "Explore", _NEEDS_SCRIPT, live=live))

    async def theory(self, request: Request) -> Response:
        """Parts of curves, one line of JSON each, as they are worked out."""
        query = request.query_params
        try:
            target = query.get("target", "")
            samples, overlap = int(query.get("samples", "64")), float(query.get("overlap", "0"))
            _require(2 <= samples <= _MOST_SAMPLES, f"samples are 2 to {_MOST_SAMPLES}, got {samples}")
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)

        async def lines() -> AsyncIterator[str]:
            async for part in self._curves.parts(target, samples, overlap):
                yield json.dumps(part, allow_nan=False, separators=(",", ":")) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def diagnose(self, request: Request) -> Response:
        """Begin a diagnosis; its document comes as an event."""
        try:
            asked = json.loads(await _body(request))
            network, seed = _network(asked)
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=400)
        if not self._diagnoses.start(network, seed):
            return JSONResponse({"error": "a diagnosis is under way: wait for its end"}, 409)
        return JSONResponse({"started": network.target}, 202)

    async def events(self, _: Request) -> Response:
        first = [] if self._follower is None else [event("history", self._history())]
        if self._unreadable:
            first.append(event("unreadable", {"error": self._unreadable}))
        return StreamingResponse(self.hub.stream(first), media_type="text/event-stream")

    def _history(self) -> dict[str, Any]:
        assert self._follower is not None
        return {"records": self._follower.history, "diagnosis": self._follower.latest}

    async def follow(self) -> None:
        """Look at the log for as long as the server runs."""
        self.hub.bind(asyncio.get_running_loop())
        while self._follower is not None:
            await self._look(self._follower)
            await asyncio.sleep(_LOOK_EVERY)

    async def _look(self, follower: Follower) -> None:
        """Tell what is new in the log; and once, in a sentence, what of it cannot be read: it may be again."""
        before, unreadable = len(follower.history), self._unreadable
        new: list[dict[str, Any]] | None
        try:
            new = await asyncio.to_thread(follower.new)
            self._unreadable = follower.problem
        except OSError as error:
            new = None
            self._unreadable = f"cannot read {follower.path.name}: {error.strerror or error}"
        if self._unreadable not in ("", unreadable):
            self.hub.tell("unreadable", {"error": self._unreadable})
        if new is None:
            return
        if unreadable not in ("", self._unreadable) or len(follower.history) < before:
            self.hub.tell("history", self._history())
        else:
            for record in new:
                self.hub.tell("record", summary(record) | {"diagnosis": record.get("diagnosis")})


async def _body(request: Request) -> bytes:
    """The body, no longer than it may be, whatever its header said."""
    content = b""
    async for part in request.stream():
        content += part
        _require(len(content) <= LARGEST_BODY, f"a request is at most {LARGEST_BODY} bytes")
    return content


def _network(asked: Any) -> tuple[NamedNetwork, int]:
    _require(isinstance(asked, dict) and isinstance(asked.get("target"), str), "say which network: a target")
    samples, seed = asked.get("samples", 64), asked.get("seed", 0)
    _require(type(samples) is int and 1 <= samples <= _MOST_SAMPLES, f"samples are 1 to {_MOST_SAMPLES}")
    _require(type(seed) is int and 0 <= seed < 2**63, "a seed is a whole number from 0 to 2^63 - 1")
    return NamedNetwork(asked["target"], samples=samples), seed


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence)
