"""From the tables of the calibration to the file that the verdict reads.

`make calibrate` runs the trainings, copies their table, diagnoses, writes this file, and diagnoses again with it.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orthoscope
from orthoscope.diagnosis.calibration import FILE, SCHEMA
from orthoscope.papers.calibration import known
from orthoscope.papers.calibration.fit import fitted
from orthoscope.papers.calibration.page import page
from orthoscope.papers.calibration.signs import Signs
from orthoscope.papers.calibration.verdict import reliability, scores
from orthoscope.papers.results import read_meta, read_table
from orthoscope.report.documents import replace

PLACE = Path(orthoscope.__file__).parent / FILE


def outcomes(results: Path) -> None:
    """Copy the table of trainings into the package."""
    folder = results / "calibration" / "outcomes"
    read_table(folder, known.Training)  # it is whole, and the one that its meta.json describes
    replace(known.FILE, (folder / "table.csv").read_text("utf-8"))


def calibration(results: Path) -> None:
    """Fit the laws to the members that may be looked at, and write them with what they are worth on the others."""
    folder = results / "calibration" / "verdict"
    rows = read_table(folder, Signs)
    replace(PLACE, json.dumps(document(rows, read_meta(folder)), indent=1, allow_nan=False) + "\n")


def docs(results: Path) -> None:
    """The page beside the results' folder, in docs."""
    written = page(results, json.loads(PLACE.read_text("utf-8")))
    replace(results.parent / "docs" / "calibration.md", written)


def document(rows: Sequence[Signs], meta: dict[str, Any]) -> dict[str, Any]:
    """Laws, scores on the families held out, and every network as a point of the plane."""
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
    {"outcomes": outcomes, "calibration": calibration, "docs": docs}[sys.argv[1]](Path(sys.argv[2]))
