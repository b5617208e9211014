"""Limits fitted to networks: known laws are found again, rules are counted right, and the packaged file is the fit."""

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binomtest

from orthoscope.diagnosis.rules import AT_RISK, CALIBRATION, Calibration, Law
from orthoscope_papers.calibration import after_steps, records
from orthoscope_papers.calibration.fit import fitted, score, threshold, two_limits
from orthoscope_papers.calibration.page import page
from orthoscope_papers.calibration.records import Signs
from orthoscope_papers.calibration.verdict import is_sick, reliability
from orthoscope_papers.calibration.write import PLACE, document
from orthoscope_papers.evidence import wilson
from orthoscope_papers.results import read_meta, read_table

RESULTS = Path(__file__).parents[3] / "results" / "calibration"
LAWS = {
    "sample rank": Law(12.0, -0.5, 4.0, 15),
    "gradient growth": Law(5.0, -0.3, 5.0),
    "gradient decay": Law(14.0, -0.1, 5.0),
}


def made_up(dice: random.Random, number: int) -> Signs:
    """A network whose outcome follows LAWS."""
    layers, rank, growth = dice.choice((5, 12, 20, 50, 80, 200)), 10 ** dice.uniform(-4, 0), dice.uniform(-30, 12)
    values = (1 / rank, growth, -growth)
    odds = max(law.log_odds(value, layers) for law, value in zip(LAWS.values(), values, strict=True))
    fails = dice.random() < Calibration(LAWS, 0.02, {}).risk(odds)
    verdict = "SICK" if odds > 0 else "HEALTHY"
    return Signs(number, "made up", 0, layers, rank, growth, 0, 0.5, 0.0, 0.5, 1.0, verdict, 0.5, 0.0, int(not fails))


def test_a_fit_finds_the_laws_that_outcomes_were_drawn_from() -> None:
    dice = random.Random(0)
    rows = [made_up(dice, number) for number in range(1500)]
    found = fitted(rows)
    for name, law in LAWS.items():
        assert found.laws[name].limit == pytest.approx(law.limit, rel=0.12)
        assert found.laws[name].power == pytest.approx(law.power, abs=0.25)
    assert 12 < found.laws["sample rank"].spared <= 20


def test_log_odds_are_zero_at_the_limit_and_the_risk_there_is_a_half() -> None:
    law = LAWS["gradient growth"]
    limit = 5.0 * (200 / 50) ** -0.3
    assert law.log_odds(limit, 200) == pytest.approx(0.0, abs=1e-12)
    assert Calibration(LAWS, 0.02, {}).risk(0.0) == pytest.approx(0.5)
    assert law.log_odds(2 * limit, 200) == pytest.approx(5 * math.log(2))
    assert law.log_odds(-1.0, 200) == -math.inf


def test_risk_begins_where_the_odds_are_those_of_a_fifth() -> None:
    calibration = Calibration(LAWS, 0.02, {})
    odds = LAWS["sample rank"].log_odds(calibration.at_risk("sample rank"), 50)
    assert calibration.risk(odds) == pytest.approx(AT_RISK)


def test_a_shallow_network_is_spared_by_the_law_that_says_so() -> None:
    law = LAWS["sample rank"]
    assert law.log_odds(1e6, 14) == -math.inf
    assert law.log_odds(1e6, 15) > 0


def test_rates_are_those_of_the_table_of_two_by_two() -> None:
    base = made_up(random.Random(1), 0)
    outcomes = [("SICK", 0)] * 6 + [("SICK", 1)] * 2 + [("HEALTHY", 1)] * 10 + [("AT RISK", 0)] * 2
    rows = [base._replace(verdict=verdict, trains=trains) for verdict, trains in outcomes]
    found = score(rows, is_sick)
    assert found.accuracy == pytest.approx(16 / 20)
    assert found.false_alarms == pytest.approx(2 / 12)
    assert found.missed == pytest.approx(2 / 8)
    assert found.precision == pytest.approx(6 / 8)


def test_two_limits_are_the_best_on_either_side() -> None:
    dice = random.Random(3)
    rows = [made_up(dice, number)._replace(sample_rank=1.0) for number in range(300)]
    rows = [row._replace(trains=int(-14 < row.growth < 5)) for row in rows]
    grows, shrinks = two_limits(rows)
    assert grows == pytest.approx(5, abs=0.5)
    assert shrinks == pytest.approx(14, abs=0.5)


def test_a_threshold_makes_fewest_mistakes_of_all() -> None:
    dice = random.Random(2)
    rows = [made_up(dice, number) for number in range(80)]
    limit = threshold(rows, lambda row: row.growth)

    def mistakes(at: float) -> int:
        return sum((row.growth > at) == bool(row.trains) for row in rows)

    assert mistakes(limit) == min(mistakes(at) for at in [-40.0, *(row.growth for row in rows)])


@pytest.mark.parametrize(("share", "count"), [(0.0, 5), (0.5, 8), (0.93, 208), (1.0, 12)])
def test_the_interval_of_a_share_is_that_of_scipy(share: float, count: int) -> None:
    reference = binomtest(round(share * count), count).proportion_ci(method="wilson")
    assert wilson(round(share * count) / count, count) == pytest.approx((reference.low, reference.high), abs=1e-4)


def test_the_packaged_file_is_the_fit_to_the_committed_tables() -> None:
    rows = read_table(RESULTS / "verdict", Signs)
    written = json.loads(PLACE.read_text("utf-8"))
    del written["after_steps"]
    assert written == json.loads(json.dumps(document(rows, read_meta(RESULTS / "verdict"))))
    assert records.FILE.read_text("utf-8") == (RESULTS / "outcomes" / "table.csv").read_text("utf-8")


@pytest.mark.slow
def test_the_probability_after_first_steps_is_the_fit_to_the_committed_tables() -> None:
    written = json.loads(PLACE.read_text("utf-8"))["after_steps"]
    found = json.loads(json.dumps(after_steps.document(after_steps.cases(RESULTS.parent))))
    # Ties between limits may be decided by rounding, which differs between processors.
    assert found["rounds"] == written["rounds"]
    assert found["rules"]["orthoscope, after first steps"]["accuracy"] == pytest.approx(
        written["rules"]["orthoscope, after first steps"]["accuracy"], abs=0.01
    )
    assert found["localization"] == written["localization"]


def test_after_first_steps_the_verdict_beats_simpler_rules_on_families_held_out() -> None:
    entry = json.loads(PLACE.read_text("utf-8"))["after_steps"]
    ours, *others = entry["rules"].values()
    assert all(ours["accuracy"] > other["accuracy"] for other in others)
    assert ours["false_alarms"] <= 0.03
    assert {name for name, one in entry["by_optimizer"].items() if one["accuracy"] >= 0.9} == {"adamw", "sgd", "muon"}


def test_the_page_is_that_of_the_committed_tables() -> None:
    root = RESULTS.parents[1]
    assert (root / "docs" / "calibration.md").read_text("utf-8") == page(RESULTS.parent, CALIBRATION.document)


def test_the_committed_tables_were_judged_by_the_packaged_laws() -> None:
    for name in ("verdict", "cure"):
        assert read_meta(RESULTS / name)["config"]["laws"] == CALIBRATION.checksum


def test_the_committed_verdicts_follow_from_the_packaged_laws() -> None:
    for row in read_table(RESULTS / "verdict", Signs):
        values = {"sample rank": 1 / row.sample_rank if row.sample_rank > 0 else math.inf}
        values |= {"gradient growth": row.growth, "gradient decay": -row.growth}
        odds = [CALIBRATION.laws[name].log_odds(value, row.weight_layers) for name, value in values.items()]
        sick = bool(row.otherwise_sick) or max(odds) > 0
        assert sick is (row.verdict == "SICK"), row
        least = CALIBRATION.risk(math.inf if row.otherwise_sick else max(odds))
        assert row.risk == pytest.approx(least, abs=1e-9)


def test_risk_is_reliable_on_families_held_out() -> None:
    held = [row for row in read_table(RESULTS / "verdict", Signs) if row.held_out]
    for risk, share, count in reliability(held):
        low, high = wilson(share, count, errors=3.0)
        assert low <= risk <= high


def test_laws_with_another_number_have_another_checksum() -> None:
    other = replace(LAWS["sample rank"], limit=13.0)
    assert Calibration(LAWS, 0.02, {}).checksum != Calibration(LAWS | {"sample rank": other}, 0.02, {}).checksum
