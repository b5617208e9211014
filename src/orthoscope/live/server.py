"""`orthoscope explore`: an address with a secret in it, a server that stops when told, and nothing left behind."""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
import webbrowser
from types import FrameType

import uvicorn

from orthoscope.live._app import Exploration
from orthoscope.live._guard import LOOPBACK, Guard

_GRACE = 2  # seconds that answers under way may take when the server stops


class _Server(uvicorn.Server):
    """Tells open streams to end when a signal comes: otherwise they would keep the server alive."""

    exploration: Exploration

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.exploration.hub.close()


def explore(host: str = "127.0.0.1", port: int = 0, follow: str | None = None, open_browser: bool = False) -> None:
    """Serve the viewer until Ctrl-C; port 0 is any free one. Prints the address, which holds the token."""
    token = secrets.token_urlsafe(24)
    exploration = Exploration(token, follow)
    listening = _socket(host, port)
    bound = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{bound}/?token={token}"
    if host not in LOOPBACK:
        print(
            f"orthoscope: listening on {host}, not only on this machine: whoever has the address below can run code "
            "here, and it travels unencrypted",
            file=sys.stderr,
        )
    print(url, flush=True)
    print("Ctrl-C stops", file=sys.stderr, flush=True)
    guarded = Guard(exploration.app(), token, host, bound)
    config = uvicorn.Config(
        guarded,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,  # lines would hold the token
        server_header=False,
        limit_concurrency=64,
        timeout_graceful_shutdown=_GRACE,
    )
    server = _Server(config)
    server.exploration = exploration
    if open_browser:
        webbrowser.open(url)
    with contextlib.closing(listening):
        asyncio.run(_serve(server, listening))


async def _serve(server: _Server, listening: socket.socket) -> None:
    looking = asyncio.create_task(server.exploration.follow())
    try:
        # uvicorn raises the signal again when it has stopped; a Ctrl-C that was asked for is no failure.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        await server.serve(sockets=[listening])
    finally:
        signal.signal(signal.SIGINT, before)
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


def _socket(host: str, port: int) -> socket.socket:
    if not 0 <= port < 65536:
        raise ValueError(f"a port is 0 to 65535, got {port}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with contextlib.ExitStack() as closing:
            listening = closing.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen()  # the address is printed before the server runs: whoever is quick waits a moment
            closing.pop_all()
    except OSError as error:
        raise ValueError(f"cannot listen on {host}, port {port}: {error}; choose another --host or --port") from error
    return listening
