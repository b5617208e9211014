"""Numbers that nothing is compared with are shown, and counted as no agreement."""

from io import StringIO
from typing import Any

import jsonschema
from rich.console import Console

from orthoscope import report
from orthoscope_papers.catalog import Entry
from orthoscope_papers.document import judged, results_document
from orthoscope_papers.evidence import Evidence, share_of, wilson
from orthoscope_papers.experiments import Experiment
from orthoscope_papers.views import count_of, results_page, results_tables

COMPARED = [
    Evidence("printed", 0.5, 0.5, 0.4, 0.6, "agrees"),
    Evidence("trend", None, -1.0, -2.0, 0.5, "differs", "not decided"),
    share_of("claimed", 0.9, 20, "of 20", "0.8 at least", True),
    share_of("beside it", 0.7, 20, "of 20"),
    share_of("and this", 0.0, 20, "of 20"),
]


EXPERIMENT = Experiment(
    module="calibration/made_up",
    settings={},
    Row=tuple,
    run=list,
    cells=list,
    check=lambda rows: {"it is so": True},
    compare=lambda rows: COMPARED,
    plot=lambda rows: [],
)


def document() -> dict[str, Any]:
    entry = Entry("calibration/made_up", EXPERIMENT.module, "A claim.", "training", False)
    return results_document("default", [judged(entry, EXPERIMENT, [], seeds=0, seconds=1.0)])


def test_a_share_agrees_with_its_claim_or_differs_or_is_measured() -> None:
    assert share_of("x", 0.9, 20, "of 20", "0.8 at least", True)[-2:] == ("agrees", "claimed is 0.8 at least; of 20")
    assert share_of("x", 0.7, 20, "of 20", "0.8 at least", False).verdict == "differs"
    assert share_of("x", 0.7, 20, "of 20")[-2:] == ("measured", "of 20")
    assert share_of("x", 0.7, 20, "of 20")[1:5] == (None, 0.7, *wilson(0.7, 20))


def test_what_is_measured_alone_is_counted_apart() -> None:
    assert count_of(document()) == (
        "1 experiments: 1 of 1 checks hold; 3 comparisons: 2 agree, 1 differ, 0 are corrected; "
        "1 of them with a printed number: 1 agree, 0 differ, 0 are corrected; 2 numbers are measured alone."
    )


def test_what_is_measured_alone_is_in_the_document_the_terminal_and_the_page() -> None:
    made = document()
    jsonschema.validate(made, report.schema())
    assert made["schema"] == "orthoscope.evidence/2"
    console = Console(file=StringIO(), width=120)
    console.print(results_tables(made))
    page = results_page(made, {"calibration": "Calibration."})
    assert console.file.getvalue().count("measured") == 2 + 1  # type: ignore[attr-defined]
    assert "| beside it | – | 0.70 [0.48, 0.85] | measured | of 20 |" in page
    assert "counted apart" in " ".join(page.split())
