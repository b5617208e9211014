"""The verbs `orthoscope reproduce` and `orthoscope errata`, which `orthoscope.cli` finds by their entry points.

Imports of torch are inside functions, so that `--help` and the list of experiments load without it; so are those of
`orthoscope.cli`, which imports this module while it is itself being imported.
"""

import json as strict_json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from orthoscope.files import replace
from orthoscope_papers.catalog import Setting, catalog, chosen, folder_of, papers
from orthoscope_papers.views import errata_list, experiment_list, results_page, results_tables

FAILED, INTERRUPTED = 1, 130


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
        Judge the saved tables again, redraw their figures, write their page here in Markdown, and run nothing.
    """
    from orthoscope.cli.app import refuse_closed, refuse_unwritable

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
        return _write_page(page, output)
    if not names:
        if json is not None:
            raise ValueError("--json holds what was found: name experiments with it, or all")
        return _show_list(output, workers)
    refuse_closed(output)
    setting: Setting = "quick" if quick else "full" if full else "default"
    return _run_named(names, setting, output, json, engine=engine, workers=workers, scheduler=scheduler)


def errata(*keys: str, json: Annotated[bool, Parameter(negative="")] = False) -> int:
    """List what is false as printed in the papers behind Orthoscope, each with a counterexample that is run now.

    Parameters
    ----------
    keys
        Only those whose key contains one of these words, such as lu2024 or theorem-5.11.
    json
        As JSON on standard output.
    """
    from orthoscope.theory import BIBLIOGRAPHY
    from orthoscope_papers.errata import all_errata

    named = [erratum for erratum in all_errata() if not keys or any(key.lower() in erratum.key for key in keys)]
    if not named:
        raise ValueError(f"no erratum has {' or '.join(map(repr, keys))} in its key: run orthoscope errata for all")
    rows = [erratum.row() for erratum in named]
    if json:
        print(strict_json.dumps(rows, ensure_ascii=False, indent=1))
    else:
        Console().print(errata_list(rows, BIBLIOGRAPHY))
    return 0


def _show_list(output: Path, workers: int | None) -> int:
    """Print every experiment with its claim and time."""
    rows = [
        {
            "paper": entry.paper,
            "name": entry.name,
            "kind": entry.kind,
            "quick": entry.seconds("quick", output),
            "default": entry.seconds("default", output),
            "full": entry.has_full,
            "data": entry.needs("default"),
            "full_data": entry.needs("full"),
            "claim": entry.claim,
        }
        for entry in catalog()
    ]
    Console().print(experiment_list(rows, papers(), workers or os.cpu_count() or 1))
    return 0


def _run_named(
    names: Sequence[str], setting: Setting, output: Path, json: str | None, **options: str | int | None
) -> int:
    """Run the named experiments, write and show their results; return 1 if a check fails or a run failed."""
    entries = chosen(names, catalog())
    from orthoscope.sweep import Interrupted
    from orthoscope_papers.reproduction import reproduce

    try:
        done = reproduce(entries, setting, output, _say, **options)
    except Interrupted as stop:
        _say(f"interrupted: {stop}")
        return INTERRUPTED
    for problem in done.problems:
        _say(problem)
    _say_what_is_not_drawn()
    console = Console(stderr=json == "-")
    console.print(results_tables(done.document))
    counts = f"runs done: {done.executed}, finished before: {done.skipped}"
    print(f"{counts}; results are in {folder_of('', setting, output)}", file=sys.stderr)
    content = strict_json.dumps(done.document, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    if json == "-":
        print(content, end="")
    elif json is not None:
        replace(Path(json), content)
        print(f"wrote {json}", file=sys.stderr)
    return 0 if done.passed else FAILED


def _write_page(page: Path, results: Path) -> int:
    """Write the page of results from the saved tables, and their figures and checks again."""
    from orthoscope_papers.document import has_results, redraw_saved, saved_document

    if not has_results(results):
        raise ValueError(
            f"there are no results to write a page of in {str(results)!r}, but for those of --quick or --full if any: "
            "run orthoscope reproduce NAME, in the default setting, first"
        )
    redraw_saved(results)
    _say_what_is_not_drawn()
    replace(page, results_page(saved_document(results), papers()))
    print(f"wrote {page}", file=sys.stderr)
    return 0


def _say_what_is_not_drawn() -> None:
    from orthoscope_papers.drawing import NOT_DRAWN, can_draw

    if not can_draw():
        _say(NOT_DRAWN)


def _say(sentence: str) -> None:
    print(f"orthoscope: {sentence}", file=sys.stderr)
