"""Results of experiments as a plain versioned document, from which every view is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orthoscope.diagnosis.document import environment
from orthoscope.report.document import (
    CheckedStatement,
    ComparedNumber,
    EvidenceDocument,
    ExperimentRecord,
    copied,
    from_data,
    to_data,
)
from orthoscope_papers.catalog import Entry, Setting, catalog, folder_of
from orthoscope_papers.experiments import Experiment, load
from orthoscope_papers.results import META, read_meta, read_table, redraw


def results_document(setting: Setting, experiments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of experiments that were judged or failed."""
    records = tuple(from_data(ExperimentRecord, experiment) for experiment in experiments)
    data: dict[str, Any] = to_data(EvidenceDocument(setting=setting, experiments=records, environment=environment()))
    return data


def judged(entry: Entry, experiment: Experiment, rows: list[Any], *, seeds: int, seconds: float) -> dict[str, Any]:
    """Return the checks and the evidence that an experiment finds in its rows."""
    checks = experiment.check(rows)
    record = copied(
        ExperimentRecord,
        entry,
        state="holds" if all(checks.values()) else "fails",
        seeds=seeds,
        rows=len(rows),
        seconds=round(seconds, 1),
        checks=tuple(CheckedStatement(statement=text, holds=bool(holds)) for text, holds in checks.items()),
        evidence=tuple(copied(ComparedNumber, evidence) for evidence in experiment.compare(rows)),
        error=None,
    )
    data: dict[str, Any] = to_data(record)
    return data


def failed(entry: Entry, error: str) -> dict[str, Any]:
    """Return the record of an experiment that did not run to its end."""
    nothing = {"seeds": 0, "rows": 0, "seconds": 0.0, "checks": (), "evidence": ()}
    data: dict[str, Any] = to_data(copied(ExperimentRecord, entry, state="error", error=error, **nothing))
    return data


def saved_document(root: Path, setting: Setting = "default") -> dict[str, Any]:
    """Return the document of all experiments with results under `root`, judged from their saved tables."""
    experiments = []
    for entry, folder in _folders(root, setting):
        experiment, meta = load(entry.name), read_meta(folder)
        rows = read_table(folder, experiment.Row)
        experiments.append(judged(entry, experiment, rows, seeds=len(meta["seeds"]), seconds=meta["seconds"]))
    return results_document(setting, experiments)


def has_results(root: Path, setting: Setting = "default") -> bool:
    """Return True if any experiment has results of that setting under `root`."""
    return bool(_folders(root, setting))


def redraw_saved(root: Path, setting: Setting = "default") -> None:
    """Write figures and checks of all saved results again, from their tables."""
    for entry, folder in _folders(root, setting):
        redraw(folder, load(entry.name))


def _folders(root: Path, setting: Setting) -> list[tuple[Entry, Path]]:
    places = [(entry, folder_of(entry.name, setting, root)) for entry in catalog()]
    return [(entry, folder) for entry, folder in places if (folder / META).is_file()]
