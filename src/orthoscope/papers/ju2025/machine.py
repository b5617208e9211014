"""What a measured time depends on beside the program."""

import platform
from pathlib import Path

import torch


def machine() -> str:
    """The processor, and how many threads torch uses."""
    threads = torch.get_num_threads()
    return f"{_processor()}, {threads} thread{'s' if threads > 1 else ''}"


def _processor() -> str:
    """Its name where Linux tells, else what kind of instructions it has."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.machine()
