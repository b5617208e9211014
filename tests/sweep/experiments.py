"""Functions for sweeps in tests, imported by workers without torch; every execution leaves a file as a mark."""

import os
import random
import signal
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

# The run that waits to be killed, the first time.
HALTING = 10


def grid(marks: Path, count: int = 40) -> list[dict[str, Any]]:
    marks.mkdir(exist_ok=True)
    return [{"number": number, "marks": str(marks)} for number in range(count)]


def mark(config: dict[str, Any]) -> bool:
    """Leave a mark; whether it is the first of this run."""
    marks, number = Path(config["marks"]), config["number"]
    first = not any(marks.glob(f"{number}-*"))
    (marks / f"{number}-{os.getpid()}-{uuid.uuid4().hex}").touch()
    return first


def executions(marks: Path) -> Counter[int]:
    """How often every run was begun."""
    return Counter(int(path.name.split("-")[0]) for path in marks.iterdir())


def processes(marks: Path, number: int | None = None) -> set[int]:
    """Who ran it, or any run."""
    return {int(path.name.split("-")[1]) for path in marks.glob(f"{'*' if number is None else number}-*")}


def square(config: dict[str, Any]) -> dict[str, Any]:
    mark(config)
    time.sleep(0.05)
    return {"square": config["number"] ** 2}


def halting(config: dict[str, Any]) -> dict[str, Any]:
    """`square`, but one run does not end before its process is killed, the first time."""
    if mark(config) and config["number"] == HALTING:
        time.sleep(300)
    time.sleep(0.05)
    return {"square": config["number"] ** 2}


def deadly(config: dict[str, Any]) -> dict[str, Any]:
    mark(config)
    if config["number"] == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"square": config["number"] ** 2}


def faulty(config: dict[str, Any]) -> int:
    mark(config)
    if config["number"] == 1:
        raise ZeroDivisionError("no inverse of [zero]")
    if config["number"] == 2:
        raise SystemExit("enough")
    return config["number"]


def draws(config: dict[str, Any]) -> dict[str, Any]:
    """Floats with all their digits, and those that JSON lacks."""
    source = random.Random(config["seed"])
    values = [source.gauss(0, config["scale"]) for _ in range(50)]
    return {"values": values, "total": sum(values), "beyond": [float("inf"), float("-inf"), float("nan"), -0.0]}


def echo(config: dict[str, Any]) -> Any:
    return config["value"]


def unplain(config: dict[str, Any]) -> Any:
    return {"rows": [1, {2, 3}]}


def threads(config: dict[str, Any]) -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def heavy(config: dict[str, Any]) -> str:
    return "x" * 12_000
