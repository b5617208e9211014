"""Write the calibration: the file that the verdict reads, the outcomes in the package, and docs/calibration.md.

`make calibrate` runs the trainings, copies their table, diagnoses, writes this file, and diagnoses again with it.
`make stock` writes the page of stock architectures.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orthoscope
from orthoscope.diagnosis.rules import FILE, SCHEMA
from orthoscope.files import replace
from orthoscope_papers.calibration import after_steps, records, stock_page
from orthoscope_papers.calibration.fit import fitted
from orthoscope_papers.calibration.page import page
from orthoscope_papers.calibration.records import Signs
from orthoscope_papers.calibration.verdict import reliability, scores
from orthoscope_papers.results import read_meta, read_table

PLACE = Path(orthoscope.__file__).parent / FILE


def outcomes(results: Path) -> None:
    """Copy the table of trainings into the package."""
    folder = results / "calibration" / "outcomes"
    read_table(folder, records.Training)  # raises if it is not the table that its meta.json describes
    replace(records.FILE, (folder / "table.csv").read_text("utf-8"))


def calibration(results: Path) -> None:
    """Fit the laws to the families that are not held out, and write them with their error rates on the others."""
    folder = results / "calibration" / "verdict"
    rows = read_table(folder, Signs)
    known = json.loads(PLACE.read_text("utf-8"))
    found = document(rows, read_meta(folder)) | {"after_steps": known["after_steps"]}
    replace(PLACE, json.dumps(found, indent=1, allow_nan=False) + "\n")


def steps(results: Path) -> None:
    """Fit the probability after first steps, and write it with its error rates on families held out."""
    known = json.loads(PLACE.read_text("utf-8"))
    entry = after_steps.document(after_steps.cases(results))
    replace(PLACE, json.dumps(known | {"after_steps": entry}, indent=1, allow_nan=False) + "\n")


def docs(results: Path) -> None:
    """Write docs/calibration.md, beside the folder of results."""
    written = page(results, json.loads(PLACE.read_text("utf-8")))
    replace(results.parent / "docs" / "calibration.md", written)


def stock(results: Path) -> None:
    """Write docs/stock_architectures.md, beside the folder of results."""
    replace(results.parent / "docs" / "stock_architectures.md", stock_page.page(results))


def document(rows: Sequence[Signs], meta: dict[str, Any]) -> dict[str, Any]:
    """Return laws, error rates on held-out families, and every network as a point of the plane."""
    found = fitted([row for row in rows if not row.held_out])
    held = [row for row in rows if row.held_out]
    return {
        "schema": SCHEMA,
        "networks": len(rows),
        "fitted_to": len(rows) - len(held),
        "lapse": found.lapse,
        "laws": {name: asdict(law) for name, law in found.laws.items()},
        "held_out": {name: one._asdict() for name, one in scores(rows).items()},
        "reliability": [{"risk": risk, "share": share, "networks": count} for risk, share, count in reliability(held)],
        "provenance": {key: meta[key] for key in ("commit", "versions", "table_sha256")},
        "reference_cloud": [
            {"gap": round(row.gap, 4), "slope": round(row.slope, 4), "trained": bool(row.trains), "family": row.family}
            for row in rows
            if row.gap == row.gap and row.slope == row.slope
        ],
    }


if __name__ == "__main__":
    verbs = {"outcomes": outcomes, "calibration": calibration, "steps": steps, "docs": docs, "stock": stock}
    verbs[sys.argv[1]](Path(sys.argv[2]))
