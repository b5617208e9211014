"""Documents in and out of files: strict JSON, its schema, and a write that happens whole or not at all."""

import json
import os
import secrets
from importlib import resources
from pathlib import Path
from typing import Any

from orthoscope.report.page import html
from orthoscope.report.reading import Document, the_single

SCHEMA = "orthoscope.report/2"


def report_json(documents: list[Document]) -> str:
    """Several diagnoses as one strict JSON text, any other document as it is: no nan, no infinity."""
    content = the_single(documents) or {"schema": SCHEMA, "diagnoses": documents}
    return json.dumps(content, allow_nan=False, indent=1) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of every document that is written, told apart by their `schema` field."""
    content = resources.files(__package__).joinpath("schema.json").read_text("utf-8")
    loaded: dict[str, Any] = json.loads(content)
    return loaded


def write(path: str | os.PathLike[str], documents: list[Document]) -> None:
    """Write `.html` or `.json`; a file that was there before stays until the new one is complete."""
    target = Path(path)
    renderers = {".html": html, ".json": report_json}
    render = renderers.get(target.suffix.lower())
    if render is None:
        raise ValueError(f"cannot write a report to {str(path)!r}: the name must end in .html or .json")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}")
    replace(target, render(documents))


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
