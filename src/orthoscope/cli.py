"""The command line: verbs only, each a call into the library. Nothing heavy is imported until a verb runs."""

import contextlib
import json as json_module
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

if TYPE_CHECKING:
    from rich.console import Console

    from orthoscope.diagnosis.specimens import Specimen

FOUND, BAD_INPUT, INTERRUPTED = 1, 2, 130


def _version() -> str:
    from orthoscope.version import VERSION

    return VERSION


app = App(
    name="orthoscope",
    help="Will this network train; if not, where does the signal die or the gradient explode, and why?",
    help_epilogue="Exit codes: 0 done, 1 a symptom of --fail-on was found, 2 bad input.",
    version=_version,
)
data = App(name="data", help="List the datasets, or fetch one: orthoscope data get cifar10.")
app.command(data)


@app.command
def diagnose(
    *targets: str,
    batch: str | None = None,
    samples: Annotated[int | None, Parameter(name=["--samples", "-n"])] = None,
    html: Path | None = None,
    json: str | None = None,
    fail_on: str = "",
    seed: int = 0,
    running_statistics: Annotated[bool, Parameter(negative="")] = False,
    traceback: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Diagnose networks at initialisation; without a target, a built-in gallery of sick and healthy ones.

    Parameters
    ----------
    targets
        package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in such as
        "mlp(depth=50, activation=relu)", convnet(...), resnet(...), transformer(...).
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples in a batch that is made up; 64 unless told, in the gallery what each network asks for.
    html
        Write one self-contained page here.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    fail_on
        Symptoms that make the exit code 1: collapse, vanish, explode, degenerate-input, or any; comma-separated.
    seed
        Seed of the weights, of a batch that is made up, and of the direction that is differentiated.
    running_statistics
        Use the running statistics of batch norm, as in eval mode, instead of the batch's own.
    traceback
        Show the Python traceback when a network fails.
    """
    from orthoscope.diagnosis.gallery import GALLERY
    from orthoscope.diagnosis.specimens import Specimen, symptoms_named

    watched = symptoms_named(fail_on)
    _refuse_unwritable(html, json)
    specimens = [Specimen(target, batch=batch) for target in targets] or list(GALLERY)
    if samples is not None:
        specimens = [replace(specimen, samples=samples) for specimen in specimens]
    documents, failures = _diagnosed(specimens, seed, not running_statistics, traceback)
    _show(documents, to_stderr=json == "-")
    _write(documents, html, json)
    if failures:
        return BAD_INPUT
    return FOUND if any(symptom in watched for d in documents for symptom in d["symptoms"]) else 0


def _diagnosed(
    specimens: "list[Specimen]", seed: int, batch_statistics: bool, traceback: bool
) -> tuple[list[dict[str, Any]], int]:
    """The documents of all that could be diagnosed, and how many could not: one bad target loses no other."""
    from orthoscope.models import TargetError

    documents: list[dict[str, Any]] = []
    failures = 0
    with _progress() as (advance, note):
        for number, specimen in enumerate(specimens):
            share = number / len(specimens)

            def progress(module: str, expected: int, done: list[int] = [0], share: float = share) -> None:  # noqa: B006
                done[0] += 1
                advance(share + min(1.0, done[0] / expected) / len(specimens), module or "the whole network")

            advance(share, specimen.title or specimen.target)
            try:
                documents.append(specimen.diagnose(seed, batch_statistics, progress).document())
            except TargetError as error:
                failures += 1
                if traceback:
                    raise
                note(f"orthoscope: {error}")
    return documents, failures
