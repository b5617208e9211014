"""`orthoscope fix`: changes tried on a copy of a network."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app, progress_bar, refuse_closed, refuse_unwritable, refuse_unwritable_as


@app.command
def fix(
    target: str,
    *,
    batch: str | None = None,
    samples: Annotated[int, Parameter(name=["--samples", "-n"])] = 64,
    output: Path | None = None,
    weights: Path | None = None,
    snippet: Path | None = None,
    html: Path | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    steps: int = 150,
    confirm: bool = True,
    trained: bool | None = None,
    reinitialize: Annotated[bool, Parameter(negative="")] = False,
    seed: int = 0,
    traceback: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Try changes on copies of a network until a short training confirms one; a network that trains is left alone.

    Exit code 0 if it is healthy, trains as it is, or was fixed, 1 if nothing helped, training refutes all that seemed
    to, or its weights are trained, 2 for bad input.

    Parameters
    ----------
    target
        As for diagnose: package.module:callable, path/to/file.py::callable, timm:NAME, hf:NAME, or a built-in.
    batch
        package.module:callable or file.py::callable that gives a batch; without it, one is made up to fit.
    samples
        Samples in a batch that is made up.
    output
        Folder for all results: fixed.safetensors, fix.py and fix.json; created if missing.
    weights
        Write the fixed weights here, .safetensors.
    snippet
        Write the code of the fix here, .py.
    html
        Write one self-contained page here: the network, what was tried, and before and after; also if nothing helped.
    json
        Write the versioned JSON here; "-" is standard output, and the table goes to standard error.
    steps
        Training steps, at each of three learning rates, of the network and of every change that is tried.
    confirm
        Whether a short training decides what is kept; without it, the verdict does.
    trained
        The weights are trained and must stay: give advice only. --no-trained says that they are not, whatever they
        look like.
    reinitialize
        Change trained weights all the same.
    seed
        Seed of the weights, of a batch that is made up, and of what is drawn anew.
    traceback
        Show the Python traceback when something fails.
    """
    if output is not None and (weights or snippet or json):
        raise ValueError("--output names the folder of all results: give it alone, or --weights, --snippet and --json")
    if output is not None:
        refuse_closed(output)
    refuse_unwritable(html, json)
    refuse_unwritable_as(weights, ".safetensors")
    refuse_unwritable_as(snippet, ".py")
    from orthoscope.cli._fix_target import conclude, fix_target

    if output is not None:
        weights, snippet, json = output / "fixed.safetensors", output / "fix.py", str(output / "fix.json")
    training, details = steps if confirm else None, html is not None or json is not None
    with progress_bar() as (advance, note):
        found = fix_target(
            target, batch, samples, seed, training, trained, reinitialize, weights, details, advance, note
        )
    return conclude(found, weights, snippet, html, json)  # after the bar is gone
