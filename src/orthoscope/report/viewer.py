"""The shell of every page: content policy, style, the documents as data, and the viewer's script.

`viewer/` draws the page. Here is only what a browser needs before the script runs, and the text that is read where
it does not run. The data are deflated and written in base64: nothing is rounded or left out, and no name or text of
a document can end the element that holds it. `viewer/src/documents.ts` inflates them.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from orthoscope.report.wording import printable


def deflated(value: Any) -> str:
    """Strict JSON of `value`, compressed by zlib, in base64."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(content.encode("ascii"), 9)).decode("ascii")


def viewer_page(
    documents: Sequence[Mapping[str, Any]],
    title: str,
    text: str,
    eyebrow: str = "Orthoscope report",
    live: Mapping[str, Any] | None = None,
) -> str:
    """Return one self-contained page.

    Nothing may be loaded, and no script runs but the viewer's: escaping is the first lock, the policy the second.

    Args:
        documents: JSON data of the documents that the viewer draws.
        title: Heading, escaped here.
        text: What is read without a script, line by line as it is; escaped here.
        eyebrow: Kind of the page, above its title.
        live: Options of a page that is served and may talk to its server; None for a file.
    """
    data = {"documents": list(documents), "reference_cloud": reference_cloud(), "live": live}
    script = _packaged("viewer.js")
    heading = escape(printable(title))
    lines = "\n".join(escape(printable(line)) for line in text.splitlines())
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script, live is not None)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{heading} · Orthoscope</title>\n<style>\n{_packaged('viewer.css')}</style>\n</head>\n<body>\n"
        f'<div id="orthoscope-static">\n<header><p class="eyebrow">{escape(eyebrow)}</p><h1>{heading}</h1></header>\n'
        f'<main><pre class="static">{lines}</pre></main>\n</div>\n'
        f'<script type="text/plain" id="orthoscope-data">{deflated(data)}</script>\n'
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


def _packaged(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")
