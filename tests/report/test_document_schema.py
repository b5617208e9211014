"""Dataclasses are the one definition of documents: what is generated is committed, and they read what they write."""

import importlib.util
import json
import math
import re
from dataclasses import is_dataclass, make_dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import pytest

from orthoscope import report
from orthoscope.findings import Verdict
from orthoscope.report.document import (
    KINDS,
    DiagnosisDocument,
    Expected,
    Gram,
    Number,
    Part,
    PredictionDocument,
    ReportDocument,
    Snapshot,
    View,
    as_document,
    from_data,
    quantities,
    to_data,
)
from orthoscope.report.document.conversion import declared_fields
from report.changes import comparison, fix
from report.handmade import EXPECTED, document, explained, layer, prediction, sequential
from report.kinds import confirmation, residual, watch

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("generate", ROOT / "viewer/generate.py")
assert SPEC is not None
assert SPEC.loader is not None
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)
MADE = {
    "diagnosis": document(sick_at="4"),
    "explained": explained(),
    "prediction": prediction(),
    "comparison": comparison(),
    "fix": fix(),
}


@pytest.mark.parametrize("path", generate.generated(ROOT), ids=lambda path: path.name)
def test_what_is_generated_is_committed(path: Path) -> None:
    committed = path.read_text("utf-8")
    assert committed == generate.generated(ROOT)[path], f"{path.name} is stale: run `make viewer` and commit it"


def test_every_class_and_every_field_says_what_it_is() -> None:
    for kind in filter(is_dataclass, generate.kinds()):
        assert (kind.__doc__ or "").rstrip().endswith("."), kind
        for field in declared_fields(kind):
            assert field.name == "schema" or field.description.endswith("."), f"{kind.__name__}.{field.name}"


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_a_document_that_is_read_and_written_is_the_same(made: dict[str, Any]) -> None:
    assert to_data(as_document(made)) == made
    assert json.loads(json.dumps(to_data(as_document(made)), allow_nan=False)) == made


def test_what_is_not_finite_becomes_null_when_a_document_is_made() -> None:
    numbers = Expected(
        rms=math.nan, overlap=math.inf, gap=0.5, effective_rank=-math.inf, isometry_gap=1, gradient_norm=None
    )
    assert to_data(numbers) == {
        "rms": None,
        "overlap": None,
        "gap": 0.5,
        "effective_rank": None,
        "isometry_gap": 1,
        "gradient_norm": None,
    }


def test_what_is_not_finite_is_left_out_of_mappings_and_lists() -> None:
    snapshot = Snapshot(step=0, verdict=Verdict.SICK, summary="", scalars={"a": math.nan, "b": 1.0}, seconds=0)
    assert to_data(snapshot)["scalars"] == {"b": 1.0}
    listed = make_dataclass("Listed", [("values", Any)], bases=(Part,), frozen=True, kw_only=True)
    assert listed(values=[2.0, [math.inf]]).values == (2.0, (None,))


PARTS = {
    "no singular values": (residual, lambda d: d["blocks"][0].update(singular_values=[]), "at least 1 items"),
    "a verdict that there is not": (residual, lambda d: d.update(verdict="FINE"), "one of"),
    "no depths": (prediction, lambda d: d.update(depths=[]), "at least 1 items"),
    "a depth that was not asked for": (prediction, lambda d: d.update(sick_from=999), "one of its depths"),
    "a layer that is not there": (comparison, lambda d: d["layers"][0].update(after=77), "one of its layers"),
    "too few singular values": (watch, lambda d: d["rows"][0].update(spectrum=[1.0]), "at least 5 items"),
    "an outcome that there is not": (confirmation, lambda d: d.update(outcome="fine"), "one of"),
}


@pytest.mark.parametrize("name", PARTS)
def test_what_the_schema_forbids_is_refused_before_a_view_crashes(name: str) -> None:
    make, break_it, expected = PARTS[name]
    broken = make()
    break_it(broken)
    with pytest.raises(ValueError, match=expected):
        report.text(broken)


def test_a_gram_matrix_is_base64() -> None:
    assert to_data(from_data(Gram, {"size": 2, "cosines": "AA=="})) == {"size": 2, "cosines": "AA=="}
    with pytest.raises(ValueError, match=r"cosines is '%%%', expected text in base64"):
        from_data(Gram, {"size": 2, "cosines": "%%%"})


def test_an_older_document_within_another_is_named_with_its_place() -> None:
    older = document(schema="orthoscope.diagnosis/2")
    del older["next_steps"]
    within = {"schema": ReportDocument.schema, "diagnoses": [document(), older]}
    words = r"diagnoses\[1\] was written by an older version \(orthoscope.diagnosis/2; this one reads .*diagnose again"
    with pytest.raises(ValueError, match=words):
        from_data(ReportDocument, within)
    with pytest.raises(ValueError, match=r"newer version \(orthoscope.report/999"):
        from_data(ReportDocument, within | {"schema": "orthoscope.report/999"})


def test_whatever_holds_a_diagnosis_changed_its_version_with_it() -> None:
    holding = {"report": 3, "comparison": 2, "fix": 2, "watch": 4, "watch-record": 3, "diagnosis": 3}
    assert {f"orthoscope.{name}/{version}" for name, version in holding.items()} <= set(KINDS)


def test_a_metric_that_is_added_does_not_make_saved_documents_unreadable() -> None:
    added = make_dataclass(
        "Added", [("news", Annotated[Number | None, "New."], None)], bases=(View,), frozen=True, kw_only=True
    )
    view = document()["layers"][0]["sample_view"]
    read = from_data(added, view)
    assert to_data(read) == view
    assert to_data(replace(read, news=0.5)) == view | {"news": 0.5}
    schema = generate._definition(added)
    assert schema["properties"]["news"]["type"] == "number"
    assert "news" not in schema["required"]


def test_an_absent_field_stays_absent() -> None:
    read = from_data(DiagnosisDocument, document())
    assert "seeds" not in to_data(read)
    assert "weight_spectrum" not in to_data(read.layers[0])
    assert "prescriptions" in to_data(replace(read, prescriptions=()))


BREAKS = {
    "layers[1].sample_view.gap is '0.3', expected a number": lambda d: d["layers"][1]["sample_view"].update(gap="0.3"),
    "layers[0].rms is True, expected a number": lambda d: d["layers"][0].update(rms=True),
    "layers[0].rms is nan, expected a number that JSON can hold": lambda d: d["layers"][0].update(rms=math.nan),
    "verdict is 'FINE', expected one of 'HEALTHY', 'UNKNOWN', 'AT RISK', 'SICK'": lambda d: d.update(verdict="FINE"),
    "layers[2] has no field 'rms'": lambda d: d["layers"][2].pop("rms"),
    "findings[0] has a field 'color'": lambda d: d["findings"][0].update(color="red"),
    "layers is None, expected a list": lambda d: d.update(layers=None),
    "input is None, expected an object": lambda d: d.update(input=None),
    "samples is 1.5, expected a whole number": lambda d: d.update(samples=1.5),
    "notes[0] is 3, expected text": lambda d: d.update(notes=[3]),
    "samples is -1, expected at least 0": lambda d: d.update(samples=-1),
    "layers[0].shape[1] is -1, expected at least 0": lambda d: d["layers"][0].update(shape=[1, -1]),
    "symptoms is ": lambda d: d.update(symptoms=["collapse", "collapse"]),
    "input.predicted is Expected(": lambda d: d["input"].update(predicted=dict(EXPECTED)),
    "it has quoted_layer 99, expected the index of one of its layers": lambda d: d.update(quoted_layer=99),
    "quoted_layer is -1, expected at least 0": lambda d: d.update(quoted_layer=-1),
    "layers[0].rms is 1000": lambda d: d["layers"][0].update(rms=10**400),
    "samples is 1000": lambda d: d.update(samples=10**400),
}


@pytest.mark.parametrize("sentence", BREAKS)
def test_bad_data_is_refused_in_one_sentence_that_names_the_place(sentence: str) -> None:
    broken = document()
    BREAKS[sentence](broken)
    with pytest.raises(ValueError, match=re.escape(f"this is no document of {DiagnosisDocument.schema}: {sentence}")):
        from_data(DiagnosisDocument, broken)


@pytest.mark.parametrize("content", [{}, {"schema": "orthoscope.report/1"}, {"schema": []}, [1], None])
def test_an_unknown_schema_is_refused_by_name(content: Any) -> None:
    with pytest.raises(ValueError, match=f"cannot draw a document of schema .*{DiagnosisDocument.schema}"):
        as_document(content)


def test_a_prediction_is_not_read_as_a_diagnosis() -> None:
    with pytest.raises(
        ValueError, match=f"{DiagnosisDocument.schema}: it has the schema '{PredictionDocument.schema}'"
    ):
        from_data(DiagnosisDocument, prediction() | {"layers": []})
    assert from_data(PredictionDocument, prediction()).possible_rank == 16


def test_every_number_of_a_layer_is_in_the_table_of_quantities() -> None:
    """A metric that is added to the documents without a row would be in no view."""
    one = from_data(DiagnosisDocument, document([layer("a", 1)])).layers[0]
    keys = {quantity.key for quantity in quantities("layer")}
    assert keys == {"rms", "gradient_norm", "weight_gradient_norm", "centered_rank", *vars(one.sample_view)}
    assert {quantity.key for quantity in quantities("layer") if quantity.is_predicted} == set(
        Expected.__dataclass_fields__
    )


def test_every_quantity_is_found_where_it_says() -> None:
    one = from_data(
        DiagnosisDocument, explained(sequential(1, predicted={**MADE["explained"]["layers"][0]["predicted"]}))
    ).layers[0]
    for quantity in quantities("layer"):
        if quantity.place != "picture":
            part = one if quantity.place == "layer" else one.sample_view
            assert one.measured(quantity.key) == getattr(part, quantity.key)
        assert (one.expected(quantity.key) is not None) == quantity.is_predicted


def test_every_schema_has_one_class() -> None:
    assert len(KINDS) == len(set(KINDS.values())) == 11
