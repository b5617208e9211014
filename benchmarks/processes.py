"""A table measured several times, in a process of its own each: where memory lies differs from one to the next.

The same call takes 1 or 1.3 times as long by that alone, ours and the peers' each in their own way, so one process
says little about a ratio near its limit.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tables import Numbers

_TABLE = """
import json
from dataclasses import asdict

import torch

torch.set_num_threads(2)
import {module}

print(json.dumps([asdict(row) for row in {module}.{table}()]))
"""


def in_processes(
    module: str, count: int, table: str = "table", environment: Mapping[str, str] | None = None
) -> list[Numbers]:
    """The rows of `module.table()` from every process, which they say the number of; in this environment, and more."""
    rows = []
    for process in range(count):
        command = [sys.executable, "-c", _TABLE.format(module=module, table=table)]
        printed = subprocess.run(
            command,
            cwd=Path(__file__).parent,
            env={**os.environ, **(environment or {})},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        rows += [{**row, "process": process} for row in json.loads(printed.stdout.splitlines()[-1])]
    return rows
