"""The command line in a process of its own, as a user starts it."""

import os
import subprocess
import sys
from pathlib import Path


def orthoscope(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orthoscope", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **environment},
        timeout=120,
    )
