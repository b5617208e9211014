"""Writing files atomically: the whole new content, or the old file untouched."""

import os
import secrets
from pathlib import Path


def replace(target: Path, content: str) -> None:
    """The whole file or none of it: written beside its place, then renamed into it."""
    # Beside the target, because a rename is atomic only within one file system. Not `tempfile`: its
    # files are readable by their owner alone, and stay so after the rename.
    temporary = target.with_name(f".orthoscope-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
