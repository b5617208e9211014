"""`orthoscope predict`: theory alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import FOUND, app, progress_bar, refuse_unwritable, show, write


@app.command
def predict(
    *targets: str,
    samples: Annotated[int, Parameter(name=["--samples", "-n"])] = 64,
    overlap: float = 0.0,
    at_least: int = 0,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
) -> int:
    """Predict by theory alone, before anything is built, how deep networks train and which check fails beyond.

    Parameters
    ----------
    targets
        Such as "mlp(activation=gelu, norm=layer, depth=1..500, width=256, init=gaussian)", with the arguments
        that diagnose takes; depth is a number or a range. Several are compared in one table.
    samples
        Samples in a batch; batch norm and the rank of samples depend on it.
    overlap
        Mean cosine of two samples of the batch.
    at_least
        Exit code 1 if a network does not train up to this depth.
    html
        Write one self-contained page with the pictures here, of a single network.
    json
        Write the versioned JSON here, of a single network; "-" is standard output, the table goes to standard error.
    """
    from rich.console import Console

    from orthoscope import report
    from orthoscope.diagnosis import predict as foretell

    if not targets:
        raise ValueError('no network was named: write orthoscope predict "mlp(activation=gelu, depth=1..500)"')
    if len(targets) > 1 and (html or json):
        raise ValueError("a page or JSON holds one prediction: ask for one network at a time")
    refuse_unwritable(html, json)
    documents = []
    for target in targets:
        with progress_bar() as (advance, _):

            def progress(share: float, what: str = target, advance: Callable[..., None] = advance) -> None:
                advance(share, what)

            documents.append(foretell(target, samples=samples, overlap=overlap, progress=progress).as_document())
    if len(documents) > 1:
        Console().print(report.comparison_table(documents))
    else:
        show(documents, to_stderr=json == "-")
    write(documents, html, json)
    return FOUND if any((document.deepest or 0) < at_least for document in documents) else 0
