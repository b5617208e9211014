"""`orthoscope reproduce`: figures and tables of the papers."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orthoscope.cli.app import app
from orthoscope.cli.output import refuse_closed, refuse_unwritable


@app.command
def reproduce(
    *names: str,
    quick: Annotated[bool, Parameter(negative="")] = False,
    full: Annotated[bool, Parameter(negative="")] = False,
    engine: str = "local",
    scheduler: str | None = None,
    workers: int | None = None,
    json: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    output: Path = Path("results"),
    page: Path | None = None,
) -> int:
    """Reproduce figures and tables of the papers: the printed number beside ours; without a name, list them all.

    Parameters
    ----------
    names
        paper/figure, a paper, or all; exit code 1 if a check fails or a run failed.
    quick
        The smallest sizes at which the claims are still decided.
    full
        The paper's own setting, where the default is smaller.
    engine
        Where the runs happen: local (processes), dask, ray, slurm, or inline (this process).
    scheduler
        Address of the cluster for dask or ray, such as tcp://host:8786.
    workers
        Processes; one a core unless told.
    json
        Write the versioned JSON here; "-" is standard output, and the tables go to standard error.
    output
        Folder of the results; finished runs are kept there too, so that the same command goes on after a crash.
    page
        Write the page of saved results here, in Markdown, judge and draw their tables anew, and run nothing.
    """
    from orthoscope.papers.command import run_named, show_list, write_page

    if quick and full:
        raise ValueError("--quick and --full are two settings: give one of them")
    refuse_unwritable(None, json, page)
    if page is not None:
        if names or quick or full:
            raise ValueError(
                "--page writes what is saved of the default setting and runs nothing: give no names or setting with it"
            )
        if not output.is_dir():
            raise ValueError(f"there are no results to write a page of: {str(output)!r} is no folder")
        return write_page(page, output)
    if not names:
        if json is not None:
            raise ValueError("--json holds what was found: name experiments with it, or all")
        return show_list(output, workers)
    refuse_closed(output)
    return run_named(
        names, "quick" if quick else "full" if full else "default", output, json, engine, workers, scheduler
    )
