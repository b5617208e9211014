"""Who may talk to the server: only a page that this server gave out, in a browser that came by its address.

A token in the URL keeps other users and other pages out, the Host header keeps out names that were pointed here
(DNS rebinding), the Origin header keeps out forms and scripts of other sites, sizes are bounded.
"""

import contextlib
import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import JSONResponse

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY = 16_384
_LONGEST_QUERY = 4_096
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """Refuses what is not from the page with the token; everything it lets through carries headers that say so."""

    def __init__(self, app: Application, token: str, host: str, port: int) -> None:
        self.app = app
        self.token = token
        self.host = host
        self.port = port

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self.refusal(scope)
        if refusal is not None:
            status, sentence = refusal
            await JSONResponse({"error": sentence}, status)(scope, receive, _with_headers(send))
        else:
            await self.app(scope, receive, _with_headers(send))

    def refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and sentence for a request that is not answered, None for one that is."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if not self._is_here(host):
            return 421, "this server answers only under the address that it printed"
        origin = headers.get("origin")
        if (origin is not None or scope["method"] == "POST") and origin != f"http://{host}":
            return 403, "requests from other sites are refused"
        if len(scope["query_string"]) > _LONGEST_QUERY:
            return 414, f"a query is at most {_LONGEST_QUERY} bytes"
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > LARGEST_BODY or "transfer-encoding" in headers:
            return 413, f"a request is at most {LARGEST_BODY} bytes, and says how many"
        query = parse_qs(scope["query_string"].decode("latin-1"))
        given = headers.get("x-orthoscope-token") or query.get("token", [""])[0]
        if not secrets.compare_digest(given.encode("utf-8"), self.token.encode("utf-8")):
            return 403, "the token is missing or wrong: open the address that orthoscope explore printed"
        return None

    def _is_here(self, host: str) -> bool:
        """Whether a Host header names this server: by an address, not by a name that anybody may point here."""
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "80")
        if port != str(self.port):
            return False
        name = name.strip("[]").lower()
        if name in LOOPBACK or self.host in LOOPBACK:
            return name in LOOPBACK
        listening = _address(self.host)
        is_any = listening is not None and listening.is_unspecified
        return name == self.host.lower() or (is_any and _address(name) is not None)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return sending
