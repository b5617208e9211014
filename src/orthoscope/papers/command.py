"""The verb `orthoscope reproduce`: the list, the runs, the page."""

import json as strict_json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from orthoscope.papers.catalog import Setting, catalog, chosen, folder_of, papers
from orthoscope.report.documents import replace
from orthoscope.report.evidence import evidence_tables, experiment_list

FAILED, INTERRUPTED = 1, 130


def show_list(output: Path, workers: int | None) -> int:
    """Every experiment, its claim and its time; nothing is run and torch is not loaded."""
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


def run_named(
    names: Sequence[str],
    setting: Setting,
    output: Path,
    json: str | None,
    engine: str,
    workers: int | None,
    scheduler: str | None,
) -> int:
    """Run what is named, write its results, show what was found; 1 if a check fails or a run failed."""
    entries = chosen(names, catalog())
    from orthoscope.papers.reproduction import reproduce
    from orthoscope.sweep import Interrupted

    try:
        done = reproduce(entries, setting, output, _say, engine=engine, workers=workers, scheduler=scheduler)
    except Interrupted as stop:
        _say(f"interrupted: {stop}")
        return INTERRUPTED
    for problem in done.problems:
        _say(problem)
    console = Console(stderr=json == "-")
    console.print(evidence_tables(done.document))
    counts = f"runs done: {done.executed}, finished before: {done.skipped}"
    print(f"{counts}; results are in {folder_of('', setting, output)}", file=sys.stderr)
    content = strict_json.dumps(done.document, allow_nan=False, ensure_ascii=False, indent=1) + "\n"
    if json == "-":
        print(content, end="")
    elif json is not None:
        replace(Path(json), content)
        print(f"wrote {json}", file=sys.stderr)
    return 0 if done.passed else FAILED


def write_page(page: Path, results: Path) -> int:
    """The page of results, from the tables that are saved; their figures and checks are made anew with it."""
    from orthoscope.papers.summary import has_results, redraw_saved

    if not has_results(results):
        raise ValueError(
            f"there are no results to write a page of in {str(results)!r}, but for those of --quick or --full if any: "
            "run orthoscope reproduce NAME, in the default setting, first"
        )
    redraw_saved(results)
    replace(page, results_page(results))
    print(f"wrote {page}", file=sys.stderr)
    return 0


def results_page(results: Path) -> str:
    """The text of docs/results.md."""
    from orthoscope.papers.summary import saved
    from orthoscope.report.evidence_page import evidence_page

    return evidence_page(saved(results), papers())


def _say(sentence: str) -> None:
    print(f"orthoscope: {sentence}", file=sys.stderr)
