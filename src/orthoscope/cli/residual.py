"""`orthoscope residual`: the Jacobians of residual blocks."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app, refuse_unwritable, show, write


@app.command
def residual(
    target: str,
    *,
    batch: str | None = None,
    samples: Annotated[int, Parameter(name=["--samples", "-n"])] = 1,
    blocks: str = "",
    top: int | None = None,
    classes: int = 10,
    token: int | None = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    seed: int = 0,
    running_statistics: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Measure how residual blocks align: their Jacobians' singular values and vectors across depth.

    Parameters
    ----------
    target
        As for diagnose: package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in.
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples of the batch whose Jacobians are taken; numbers are medians over them.
    blocks
        Names of modules, comma-separated, instead of the residual branches that are found.
    top
        Singular values of every block; by default one more than the classes.
    classes
        Number of classes, with which the rank of a Jacobian is compared.
    token
        Take the Jacobian of one token, the others held; for networks on sequences.
    html
        Write one self-contained page here.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    seed
        Seed of the weights, of a batch that is made up, and of the random vectors.
    running_statistics
        Use the running statistics of batch norm instead of those of the batch.
    """
    from orthoscope.diagnosis.targets import NamedNetwork

    refuse_unwritable(html, json)
    options = {"samples": samples, "top": top, "classes": classes, "token": token}
    named = [name.strip() for name in blocks.split(",") if name.strip()] or None
    document = (
        NamedNetwork(target, batch=batch)
        .align(seed, blocks=named, running_statistics=running_statistics, **options)
        .as_document()
    )
    show([document], to_stderr=json == "-")
    write([document], html, json)
    return 0
