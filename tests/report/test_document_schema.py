"""Dataclasses are the one definition of documents: what is generated is committed, and they read what they write."""

import importlib.util
import json
import math
import re
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from orthoscope.report.document import (
    KINDS,
    DiagnosisDocument,
    Expected,
    PredictionDocument,
    as_document,
    from_data,
    quantities,
    to_data,
)
from orthoscope.report.document.conversion import declared_fields
from report.changes import comparison, fix
from report.handmade import document, explained, layer, prediction, sequential

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


def test_an_absent_field_stays_absent() -> None:
    read = from_data(DiagnosisDocument, document())
    assert "seeds" not in to_data(read)
    assert "weight_spectrum" not in to_data(read.layers[0])
    assert "prescriptions" in to_data(replace(read, prescriptions=()))


BREAKS = {
    "layers[1].sample_view.gap is '0.3', expected a number": lambda d: d["layers"][1]["sample_view"].update(gap="0.3"),
    "layers[0].rms is True, expected a number": lambda d: d["layers"][0].update(rms=True),
    "layers[0].rms is nan, expected a number that JSON can hold": lambda d: d["layers"][0].update(rms=math.nan),
    "verdict is 'FINE', expected one of 'HEALTHY', 'AT RISK', 'SICK'": lambda d: d.update(verdict="FINE"),
    "layers[2] has no field 'rms'": lambda d: d["layers"][2].pop("rms"),
    "findings[0] has a field 'color'": lambda d: d["findings"][0].update(color="red"),
    "layers is None, expected a list": lambda d: d.update(layers=None),
    "input is None, expected an object": lambda d: d.update(input=None),
    "samples is 1.5, expected a whole number": lambda d: d.update(samples=1.5),
    "notes[0] is 3, expected text": lambda d: d.update(notes=[3]),
}


@pytest.mark.parametrize("sentence", BREAKS)
def test_bad_data_is_refused_in_one_sentence_that_names_the_place(sentence: str) -> None:
    broken = document()
    BREAKS[sentence](broken)
    with pytest.raises(ValueError, match=re.escape(f"this is no document of orthoscope.diagnosis/3: {sentence}")):
        from_data(DiagnosisDocument, broken)


@pytest.mark.parametrize("content", [{}, {"schema": "orthoscope.diagnosis/2"}, {"schema": []}, [1], None])
def test_an_unknown_schema_is_refused_by_name(content: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot draw a document of schema .*orthoscope\.diagnosis/3"):
        as_document(content)


def test_a_prediction_is_not_read_as_a_diagnosis() -> None:
    with pytest.raises(ValueError, match=r"orthoscope\.diagnosis/3: its schema is 'orthoscope\.prediction/1'"):
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
