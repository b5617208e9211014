"""Numbers read the same in a terminal and on a page, however large they are."""

import json
from pathlib import Path

import pytest

from orthoscope import report
from orthoscope.findings import Symptom
from orthoscope.report.wording import factor
from report.handmade import document

FACTORS = json.loads(Path(__file__).with_name("factors.json").read_text("utf-8"))


@pytest.mark.parametrize("one", FACTORS, ids=lambda one: one["written"])
def test_factors_are_written_by_the_rule_that_the_page_follows(one: dict[str, float | str]) -> None:
    assert factor(float(one["log"])) == one["written"]


@pytest.mark.parametrize("slope", [1000, -1000, 1e300])
def test_a_slope_without_measure_is_a_power_of_ten(slope: float) -> None:
    made = document(slope={"value": slope, "standard_error": 1.0, "layers": 3, "unit": ""})
    assert "×10" in report.text(made)


def test_growth_per_layer_has_its_error_on_both_sides_unless_both_read_alike() -> None:
    for value, words in ((0.05, "×12 from output to input, ×1.05 (± 1 s.e.: 1.04 to 1.06)"), (2.5, "×10⁵⁴ from")):
        made = document(slope={"value": value, "standard_error": 0.01, "layers": 51, "unit": ""})
        text = " ".join(report.text(made, 200).split())
        assert f"fitted gradient growth {words}" in text
        assert ("s.e." in text) == (value == 0.05)


def test_symptoms_have_the_words_of_the_field() -> None:
    assert [symptom.words for symptom in Symptom] == [
        "rank collapse",
        "vanishing gradients",
        "exploding gradients",
        "degenerate input",
        "broken attention",
        "unbalanced experts",
        "no gradient path",
        "unsuitable scale",
        "unsuitable loss",
        "slow learning",
    ]
    assert "rank collapse from here on" in report.text(document(sick_at="4"), 200)
