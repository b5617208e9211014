"""Results of experiments as a plain versioned document, from which every view is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orthoscope.diagnosis.document import environment, finite
from orthoscope_papers.catalog import Entry, Setting, catalog, folder_of
from orthoscope_papers.evidence import Evidence
from orthoscope_papers.experiments import Experiment, load
from orthoscope_papers.results import META, read_meta, read_table, redraw

SCHEMA = "orthoscope.evidence/2"


def results_document(setting: Setting, experiments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of experiments that were judged or failed."""
    return {
        "schema": SCHEMA,
        "setting": setting,
        "experiments": list(experiments),
        "environment": environment(),
    }


def judged(entry: Entry, experiment: Experiment, rows: list[Any], *, seeds: int, seconds: float) -> dict[str, Any]:
    """Return the checks and the evidence that an experiment finds in its rows."""
    checks = experiment.check(rows)
    return {
        **_described(entry),
        "state": "holds" if all(checks.values()) else "fails",
        "seeds": seeds,
        "rows": len(rows),
        "seconds": round(seconds, 1),
        "checks": [{"statement": statement, "holds": bool(holds)} for statement, holds in checks.items()],
        "evidence": [_plain(evidence) for evidence in experiment.compare(rows)],
        "error": None,
    }


def failed(entry: Entry, error: str) -> dict[str, Any]:
    """Return the record of an experiment that did not run to its end."""
    nothing = {"seeds": 0, "rows": 0, "seconds": 0.0, "checks": [], "evidence": []}
    return {**_described(entry), "state": "error", **nothing, "error": error}


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


def _described(entry: Entry) -> dict[str, str]:
    return {"name": entry.name, "claim": entry.claim, "kind": entry.kind}


def _plain(evidence: Evidence) -> dict[str, Any]:
    numbers = {field: finite(getattr(evidence, field)) for field in ("printed", "ours", "low", "high")}
    return {"quantity": evidence.quantity, **numbers, "verdict": evidence.verdict, "why": evidence.why}
