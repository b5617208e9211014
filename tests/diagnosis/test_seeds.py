import jsonschema
import pytest

from orthoscope import report
from orthoscope.diagnosis import targets
from orthoscope.diagnosis.targets import NamedNetwork
from orthoscope.report.document import DiagnosisDocument, from_data, to_data
from report.handmade import document, layer


def with_seeds(made, seeds):
    return to_data(targets.with_seeds([from_data(DiagnosisDocument, one) for one in made], seeds))


@pytest.mark.slow
def test_a_range_holds_every_seed_and_touches_two():
    drawn = [NamedNetwork("mlp(depth=4, width=16)", samples=8).diagnose(seed).document() for seed in (3, 4, 5)]
    merged = with_seeds(drawn, (3, 4, 5))
    jsonschema.Draft202012Validator(report.schema()).validate(merged)
    assert merged["layers"] == drawn[0]["layers"]
    for name, read in (("overlap", lambda row: row["sample_view"]["overlap"]), ("rms", lambda row: row["rms"])):
        ends = merged["seeds"]["ranges"][name]
        for index, (low, high) in enumerate(zip(ends["low"], ends["high"], strict=True)):
            values = [read(made["layers"][index]) for made in drawn]
            assert (low, high) == (min(values), max(values))
            assert low < high
    assert merged["seeds"]["slopes"] == [made["slope"]["value"] for made in drawn]


def test_what_is_never_defined_has_no_range():
    dead, alive = layer("a", sample_view=None, rms=None), layer("a", rms=2.0)
    ranges = with_seeds([document([dead]), document([alive])], (0, 1))["seeds"]["ranges"]
    assert ranges["rms"] == {"low": [2.0], "high": [2.0]}
    assert with_seeds([document([dead])] * 2, (0, 1))["seeds"]["ranges"]["rms"] == {"low": [None], "high": [None]}


def test_networks_that_differ_are_refused():
    with pytest.raises(ValueError, match="different modules"):
        with_seeds([document([layer("a")]), document([layer("b")])], (0, 1))
