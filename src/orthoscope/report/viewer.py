"""The page that the viewer draws: documents as data, one script, and the tables that are read without a script.

Lists of alike objects are packed as columns, so that a thousand layers take few bytes; nothing is rounded or left out.
`viewer/src/documents.ts` unpacks them.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from orthoscope.report.reading import Document
from orthoscope.report.residual import residual_section


def packed(value: Any) -> Any:
    """The same data, lists of two or more objects as `{"$table": rows, "nulls": [...], "columns": {...}}`.

    A column is `{"values": [...]}` with `at`, the rows among those that are objects, where some lack the key.
    """
    if isinstance(value, Mapping):
        return {key: packed(inner) for key, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    objects = [row for row in value if isinstance(row, Mapping)]
    if len(objects) < 2 or any(row is not None and not isinstance(row, Mapping) for row in value):
        return [packed(row) for row in value]
    table: dict[str, Any] = {"$table": len(value)}
    if len(objects) < len(value):
        table["nulls"] = [index for index, row in enumerate(value) if row is None]
    table["columns"] = {key: _column(key, objects) for key in dict.fromkeys(key for row in objects for key in row)}
    return table


def _column(key: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    at = [index for index, row in enumerate(objects) if key in row]
    column: dict[str, Any] = {"values": packed([objects[index][key] for index in at])}
    return column if len(at) == len(objects) else column | {"at": at}


def script_json(value: Any) -> str:
    """Strict JSON that can stand in a script element: no `<`, so nothing in it ends or begins an element."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return content.replace("<", "\\u003c")


def viewer_page(
    documents: Sequence[Document],
    title: str,
    content: str,
    live: Mapping[str, Any] | None = None,
    beside: str = "",
) -> str:
    """One self-contained page. `title` and `content` are markup, shown until the script has drawn, or without it.

    `beside` is markup that stays; the viewer puts what has the id "change" below what is to be changed.

    Nothing may be loaded, and no script runs but this one: escaping is the first lock, the policy the second. A page
    that is served live may talk to its server.
    """
    data = {"documents": packed(list(documents)), "reference_cloud": packed(reference_cloud()), "live": live}
    script = _packaged("viewer.js")
    style = _packaged("style.css") + _packaged("viewer.css")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script, live is not None)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{title} · Orthoscope</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<div id="orthoscope-static"><header><p class="eyebrow">Orthoscope report</p><h1>{title}</h1></header>\n'
        f"<main>\n{content}</main></div>\n{beside}{_residuals(documents)}"
        f'<script type="application/json" id="orthoscope-data">{script_json(data)}</script>\n'
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def policy(script: str, live: bool = False) -> str:
    """What the page may do: run this very script, style itself, and, live, talk to where it came from."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    connect = "; connect-src 'self'" if live else ""
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'{connect}; "
        "base-uri 'none'; form-action 'none'"
    )


def reference_cloud() -> list[dict[str, Any]]:
    """Networks whose training outcome is known: gap, slope, trained, family."""
    file = resources.files("orthoscope").joinpath("calibration.json")
    cloud: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))["reference_cloud"]
    return cloud


def _residuals(documents: Sequence[Document]) -> str:
    """How residual blocks align, drawn here and put in its place by the viewer."""
    return "".join(
        f'<template id="residual-{index}">{residual_section(document["residual"])}</template>\n'
        for index, document in enumerate(documents, start=1)
        if document.get("residual")
    )


def _packaged(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
