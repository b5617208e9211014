"""Writing files atomically: the whole new content, or the old file untouched."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Context with an empty file to write to, which takes the place of `target` if nothing is raised."""
    # Beside the target, because a rename is atomic only within one file system. Not `tempfile`: its
    # files are readable by their owner alone, and stay so after the rename.
    temporary = target.with_name(f".orthoscope-{secrets.token_hex(8)}.tmp")
    try:
        temporary.touch(exist_ok=False)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def replace(target: Path, content: str) -> None:
    """Write the whole text or none of it."""
    with replacing(target) as temporary:
        temporary.write_text(content, encoding="utf-8", newline="\n")
