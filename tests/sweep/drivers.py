"""Start sweeps in processes that tests can kill."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent.parent

CODE = """
import sys
from pathlib import Path
from orthoscope.sweep import run
from sweep.experiments import {function}, grid
if __name__ == "__main__":
    run({function}, grid(Path(sys.argv[2])), sys.argv[1], sys.argv[3], workers=2, progress=False)
"""


def driver(function: str, store: Path, marks: Path, engine: str = "local") -> "subprocess.Popen[str]":
    """A sweep of 40 runs on two workers, in a process group of its own."""
    marks.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", CODE.format(function=function), str(store), str(marks), engine],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def until(condition: Callable[[], object], seconds: float = 180) -> None:
    """Wait for something that must come; fails if it does not."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
