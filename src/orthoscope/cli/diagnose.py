"""`orthoscope diagnose`: one network or many, and what to change."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import BAD_INPUT, FOUND, app, progress_bar, refuse_unwritable, show, write


@app.command
def diagnose(
    *targets: str,
    batch: str | None = None,
    samples: Annotated[int | None, Parameter(name=["--samples", "-n"])] = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    fail_on: str = "",
    seed: int = 0,
    seeds: int = 1,
    running_statistics: Annotated[bool, Parameter(negative="")] = False,
    deep: Annotated[bool, Parameter(negative="")] = False,
    traceback: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Diagnose networks at initialization; without a target, a built-in gallery of sick and healthy ones.

    Parameters
    ----------
    targets
        package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in such as
        "mlp(depth=50, activation=relu)", convnet(...), resnet(...), transformer(...).
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples in a batch that is made up; 64 by default, in the gallery what each network asks for.
    html
        Write one self-contained page here.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    fail_on
        Symptoms that make the exit code 1, comma-separated: collapse, vanish, explode, degenerate-input, attention,
        routing, disconnected, scale, loss, or any.
    seed
        Seed of the weights, of a batch that is made up, and of the direction that is differentiated.
    seeds
        Draw the weights with so many seeds, counting from --seed: the table shows the first, the page the range of all.
    running_statistics
        Use the running statistics of batch norm, as in eval mode, instead of the batch's own.
    deep
        Measure the Jacobians of residual blocks too, as `orthoscope residual` does, and whether later tokens or other
        samples of the batch change an output.
    traceback
        Show the Python traceback when a network fails.
    """
    from orthoscope.diagnosis.targets import GALLERY, NamedNetwork, diagnosed, symptoms_named
    from orthoscope.models import TargetError

    watched = symptoms_named(fail_on)
    if not 0 <= seed < 2**63:
        raise ValueError(f"a seed is a whole number from 0 to 2^63 - 1, got {seed}")
    if not 1 <= seeds <= 1000:
        raise ValueError(f"networks are drawn with 1 to 1000 seeds, got {seeds}")
    refuse_unwritable(html, json)
    networks = [NamedNetwork(target, batch=batch) for target in targets] or list(GALLERY)
    if samples is not None:
        networks = [replace(network, samples=samples) for network in networks]
    all_seeds, details = range(seed, seed + seeds), html is not None or json is not None
    documents, failed = [], False
    with progress_bar() as (advance, note):
        for found in diagnosed(networks, all_seeds, not running_statistics, deep, details, advance):
            if not isinstance(found, TargetError):
                documents.append(found)
                continue
            if traceback:
                raise found
            failed = True
            note(f"orthoscope: {found}")
    show(documents, to_stderr=json == "-")
    write(documents, html, json)
    if failed:
        return BAD_INPUT
    return FOUND if any(symptom in watched for document in documents for symptom in document.symptoms) else 0
