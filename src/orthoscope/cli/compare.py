"""`orthoscope compare`: two documents side by side."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import FOUND, app, refuse_unwritable, show, write, write_text


@app.command
def compare(
    before: Path,
    after: Path,
    *,
    markdown: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    fail_if_worse: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Compare two saved diagnoses: before and after a change, two checkpoints, two branches.

    Parameters
    ----------
    before
        A file that diagnose --json wrote; of several networks in it, those are compared that both files name.
    after
        The other.
    markdown
        Write a comment for a pull request here; "-" is standard output, and the table goes to standard error.
    html
        Write one self-contained page here, of a single network.
    json
        Write the versioned JSON here, of a single network; "-" is standard output.
    fail_if_worse
        Exit code 1 if a verdict is worse than it was.
    """
    from orthoscope.prescriptions.comparison import compared_files
    from orthoscope.report import comparison_markdown

    if markdown == json == "-":
        raise ValueError("standard output holds one of the two: give --markdown or --json the name of a file")
    refuse_unwritable(html, json, None if markdown in (None, "-") else Path(str(markdown)))
    documents = compared_files(before, after)
    if len(documents) > 1 and (html or json):
        raise ValueError("a page or JSON holds one comparison: compare files of one network each")
    for document in documents:
        show([document], to_stderr="-" in (markdown, json))
    write_text("\n".join(comparison_markdown(document) for document in documents), markdown)
    write(documents, html, json)
    worse = any(document.verdict.after.rank > document.verdict.before.rank for document in documents)
    return FOUND if fail_if_worse and worse else 0
