"""What experiments found as a plain, versioned document, of which tables, JSON and the page of results are drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orthoscope.diagnosis.document import environment, finite
from orthoscope.papers.catalog import Entry, Setting, catalog, folder_of
from orthoscope.papers.evidence import Evidence
from orthoscope.papers.experiments import load
from orthoscope.papers.results import META, read_meta, read_table, redraw

SCHEMA = "orthoscope.evidence/2"


def evidence_document(setting: Setting, experiments: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "setting": setting,
        "experiments": list(experiments),
        "environment": environment(),
    }


def found(entry: Entry, experiment: Any, rows: list[Any], *, seeds: int, seconds: float) -> dict[str, Any]:
    """What the checks and comparisons of an experiment say about its rows."""
    checks = experiment.check(rows)
    return {
        **_described(entry),
        "state": "holds" if all(checks.values()) else "fails",
        "seeds": seeds,
        "rows": len(rows),
        "seconds": round(seconds, 1),
        "checks": [{"statement": statement, "holds": bool(holds)} for statement, holds in checks.items()],
        "evidence": [_compared(evidence) for evidence in experiment.compare(rows)],
        "error": None,
    }


def not_found(entry: Entry, error: str) -> dict[str, Any]:
    """An experiment that did not run to its end, and why."""
    nothing = {"seeds": 0, "rows": 0, "seconds": 0.0, "checks": [], "evidence": []}
    return {**_described(entry), "state": "error", **nothing, "error": error}


def saved(root: Path, setting: Setting = "default") -> dict[str, Any]:
    """The same of all experiments that have results under `root`, from their tables as they are."""
    experiments = []
    for entry, folder in _folders(root, setting):
        experiment, meta = load(entry.name), read_meta(folder)
        rows = read_table(folder, experiment.Row)
        experiments.append(found(entry, experiment, rows, seeds=len(meta["seeds"]), seconds=meta["seconds"]))
    return evidence_document(setting, experiments)


def has_results(root: Path, setting: Setting = "default") -> bool:
    """Whether any experiment has results of that setting under `root`."""
    return bool(_folders(root, setting))


def redraw_saved(root: Path, setting: Setting = "default") -> None:
    """Figures and checks of all saved results, anew from their tables."""
    for entry, folder in _folders(root, setting):
        redraw(folder, load(entry.name))


def _folders(root: Path, setting: Setting) -> list[tuple[Entry, Path]]:
    places = [(entry, folder_of(entry.name, setting, root)) for entry in catalog()]
    return [(entry, folder) for entry, folder in places if (folder / META).is_file()]


def _described(entry: Entry) -> dict[str, str]:
    return {"name": entry.name, "claim": entry.claim, "kind": entry.kind}


def _compared(evidence: Evidence) -> dict[str, Any]:
    numbers = {field: finite(getattr(evidence, field)) for field in ("printed", "ours", "low", "high")}
    return {"quantity": evidence.quantity, **numbers, "verdict": evidence.verdict, "why": evidence.why}
