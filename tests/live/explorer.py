"""`orthoscope explore` in a process of its own, and requests to it as any program could make them."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Explorer:
    process: subprocess.Popen[str]
    url: str

    @property
    def address(self) -> str:
        return urlsplit(self.url).netloc

    @property
    def token(self) -> str:
        return self.url.partition("token=")[2]

    def ask(
        self, path: str, method: str = "GET", body: str | None = None, **headers: str | None
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers and body; a header of None is left out, token and origin are right unless told."""
        sent = {"X-Orthoscope-Token": self.token, "Origin": f"http://{self.address}" if method == "POST" else None}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.request(method, path, body, {k: v for k, v in sent.items() if v is not None})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read().decode()
        finally:
            connection.close()

    def events(self) -> Iterator[tuple[str, Any]]:
        """Server-sent events from now on, one after the other; ends when the server ends them."""
        connection = http.client.HTTPConnection(self.address, timeout=120)
        connection.request("GET", f"/api/events?token={self.token}")
        answer = connection.getresponse()
        assert answer.readline().startswith(b"retry")  # listens by now
        return _said(connection, answer)

    def interrupt(self) -> int:
        """Ctrl-C, and the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


def _said(connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    kind = ""
    try:
        while line := answer.readline().decode():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ").strip()
            elif line.startswith("data: "):
                yield kind, json.loads(line.removeprefix("data: "))
    finally:
        answer.close()
        connection.close()


@contextmanager
def exploring(*arguments: str) -> Iterator[Explorer]:
    command = [sys.executable, "-m", "orthoscope", "explore", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().strip()
        assert url, process.stderr.read()
        yield Explorer(process, url)
    finally:
        process.kill()
        process.communicate()
