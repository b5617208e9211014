"""Other programs, run with a time limit; they answer with one line instead of a screenful."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

TIME_LIMIT_SECONDS = 1800.0
_POLL_SECONDS = 0.2


def run(
    command: list[str], folder: Path, watch: Callable[[], None] = lambda: None, stdout: int | None = None
) -> str | None:
    """Run a command in `folder`; None when it succeeds, else the line in which it says why not.

    `watch` is called every now and then while it runs. What it prints is kept out of sight, unless
    `stdout` is a file descriptor that wants it.
    """
    deadline = time.monotonic() + TIME_LIMIT_SECONDS
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
        )
        try:
            while _still_running(process):
                watch()
                if time.monotonic() > deadline:
                    return f"it was stopped after {TIME_LIMIT_SECONDS:g} seconds"
        finally:
            _end(process)
        log.seek(0)
        return None if process.returncode == 0 else complaint(log.read().decode(errors="replace"))


def complaint(log: str) -> str:
    """The telling line of what npm or apt printed: its first error, without codes, or else its last words.

    The last line is no good as such: npm ends with advice about proxies and the place of its log.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    prefix = re.compile(r"^(npm error|npm ERR!|E:)\s*")
    errors = [prefix.sub("", line) for line in lines if prefix.match(line)]
    telling = [line for line in errors if line and not re.match(r"(code|syscall|errno)\b", line)]
    return (telling or lines[-1:] or ["it printed nothing"])[0]


def _still_running(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return True
    return False


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process that still runs, with its children: npm may be a script that starts Node."""
    if process.poll() is None:
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
