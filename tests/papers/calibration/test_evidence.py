"""The calibration agrees with what it claims, and with nothing else: no paper printed these numbers."""

from pathlib import Path

import pytest

from orthoscope_papers.calibration import cure, outcomes, verdict
from orthoscope_papers.calibration.fit import Score
from orthoscope_papers.experiments import load
from orthoscope_papers.results import read_table

RESULTS = Path(__file__).parents[3] / "results" / "calibration"
CLAIMED = {
    "cure": {"share that trains after the fix"},
    "outcomes": {"share whose seeds end alike"},
    "verdict": {"accuracy, orthoscope", "false alarms, orthoscope"},
}


@pytest.mark.parametrize("name", CLAIMED)
def test_only_what_is_claimed_can_agree(name: str) -> None:
    experiment = load(f"calibration/{name}")
    found = experiment.compare(read_table(RESULTS / name, experiment.Row))
    assert {one.quantity for one in found if one.verdict == "agrees"} == CLAIMED[name]
    assert {one.verdict for one in found if one.quantity not in CLAIMED[name]} == {"measured"}


def test_a_claim_that_does_not_hold_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = [row._replace(trains=0) for row in read_table(RESULTS / "cure", cure.Row)]
    assert cure.compare(sick)[0].verdict == "differs"
    trained = read_table(RESULTS / "outcomes", outcomes.Row)
    tossed = [
        row._replace(loss_low=0.0) if row.seed else row._replace(loss_low=9.0, loss_middle=9.0, loss_high=9.0)
        for row in trained
    ]
    assert [one.verdict for one in outcomes.compare(tossed)] == ["measured", "differs"]
    rows = read_table(RESULTS / "verdict", verdict.Row)
    poor = Score(accuracy=0.7, false_alarms=0.3, missed=0.3, precision=0.7, networks=208)
    monkeypatch.setattr(verdict, "scores", lambda rows: {"orthoscope": poor, "variance alone": poor})
    assert [one.verdict for one in verdict.compare(rows)] == ["differs", "differs", *["measured"] * 4]
