"""Documents in and out of files: offline pages, strict JSON, its schema, and a write that happens whole or not at all.

`viewer/` draws the page. Here is only what a browser needs before its script runs, and the text that is read where it
does not run. The data are deflated and written in base64: nothing is rounded or left out, and no name or text of a
document can end the element that holds it. `viewer/src/documents.ts` inflates them.
"""

import base64
import hashlib
import json
import os
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from orthoscope.files import replace
from orthoscope.findings import Verdict
from orthoscope.report.document import (
    ComparisonDocument,
    DiagnosisDocument,
    Document,
    ReportDocument,
    ResidualDocument,
    WatchDocument,
    as_document,
    to_data,
)
from orthoscope.report.layout import as_text
from orthoscope.report.terminal import gallery_table, text
from orthoscope.report.watch_terminal import watch_table
from orthoscope.report.wording import LONGEST_TITLE, printable, shortened

_NOTEBOOK_HEIGHT = 700
_STATIC_WIDTH = 110  # columns of the text that is read without scripts


def _alone(documents: Sequence[Document]) -> Document | None:
    """Return the document that stands alone, as a prediction or a fix; None for diagnoses: one file holds either."""
    single = [document for document in documents if not isinstance(document, DiagnosisDocument)]
    if len(documents) > 1 and single:
        kind = _kind(single[0])
        raise ValueError(
            f"a file holds one {kind} or several diagnoses, not {len(single)} of {len(documents)} documents "
            f"{kind}s: write them one by one"
        )
    return single[0] if single else None


def _kind(document: Document) -> str:
    if isinstance(document, ResidualDocument):
        return "residual alignment"
    return type(document).__name__.removesuffix("Document").lower()


def html(contents: Sequence[Any]) -> str:
    """One document, or several diagnoses, as one self-contained page that the viewer draws.

    Args:
        contents: Diagnoses, or one document of another kind, as their dataclasses or as JSON data.

    Returns:
        The page. It needs no network; without scripts it shows what the terminal prints.

    Raises:
        ValueError: If a document of another kind is not alone, or none of a kind that this version draws.
    """
    documents = [as_document(content) for content in contents]
    single = _alone(documents)
    eyebrow = "Orthoscope report" if single is None else f"Orthoscope {_kind(single)}"
    together = [as_text(gallery_table(documents), _STATIC_WIDTH)] if len(documents) > 1 else []
    static = "\n".join([*together, *map(_static, documents)])
    return viewer_page(to_data(documents), _title(documents), static, eyebrow)


def _static(document: Document) -> str:
    """Return what is read without scripts: what a terminal shows; of a watch, updates and the last snapshot too."""
    parts = [text(document, _STATIC_WIDTH)]
    if isinstance(document, WatchDocument):
        parts += [watch_table(document, width=_STATIC_WIDTH)] if document.rows else []
        parts += [text(document.latest, _STATIC_WIDTH)] if document.latest is not None else []
    return "\n".join(parts)


def _title(documents: Sequence[Document]) -> str:
    if len(documents) == 1:
        (document,) = documents
        both = (document.before.name, document.after.name) if isinstance(document, ComparisonDocument) else ()
        names = dict.fromkeys(shortened(printable(name), LONGEST_TITLE) for name in both or (document.name,))
        return " → ".join(name or "a network without a name" for name in names)
    counts = Counter(document.verdict for document in documents if isinstance(document, DiagnosisDocument))
    parts = [f"{counts[verdict]} {verdict.lower()}" for verdict in reversed(Verdict) if counts[verdict]]
    return f"{len(documents)} networks" + (f": {', '.join(parts)}" if parts else "")


def notebook(content: Any) -> str:
    """Return the page in a frame of its own: its style cannot leak into the notebook, nor the notebook's into it.

    Its scripts run, but of an origin that is nobody's: they reach neither the notebook nor its cookies.
    """
    return (
        f'<iframe srcdoc="{escape(html([content]), quote=True)}" sandbox="allow-scripts allow-downloads" '
        f'title="Orthoscope report" width="100%" height="{_NOTEBOOK_HEIGHT}" style="border:0"></iframe>'
    )


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


def deflated(value: Any) -> str:
    """Strict JSON of `value`, compressed by zlib, in base64."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(content.encode("ascii"), 9)).decode("ascii")


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


def report_json(contents: Sequence[Any]) -> str:
    """Return several diagnoses as one strict JSON text, any other document as it is: no nan, no infinity."""
    documents = [as_document(content) for content in contents]
    single = _alone(documents)
    diagnoses = tuple(document for document in documents if isinstance(document, DiagnosisDocument))
    content = ReportDocument(diagnoses=diagnoses) if single is None else single
    return json.dumps(to_data(content), allow_nan=False, indent=1) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of every document that is written, told apart by their `schema` field."""
    loaded: dict[str, Any] = json.loads(_packaged("schema.json"))
    return loaded


def write(path: str | os.PathLike[str], documents: Sequence[Any]) -> None:
    """Write documents, as their dataclasses or as JSON data, to `.html` or `.json`.

    A file that was there before stays until the new one is complete.
    """
    target = Path(path)
    renderers = {".html": html, ".json": report_json}
    render = renderers.get(target.suffix.lower())
    if render is None:
        raise ValueError(f"cannot write a report to {str(path)!r}: the name must end in .html or .json")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {str(path)!r}: there is no folder {str(target.parent)!r}")
    replace(target, render(documents))
