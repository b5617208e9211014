import json
import os
import subprocess
import sys

import jsonschema
import pytest

from orthoscope import report
from orthoscope.report import pages
from orthoscope.report.document import DiagnosisDocument, ReportDocument
from report.handmade import (
    EXPECTED,
    NUMBERS,
    document,
    explained,
    layer,
    prediction,
    sequential,
    undefined_layer,
    unknown_prediction,
)

VALIDATOR = jsonschema.Draft202012Validator(report.schema())


@pytest.mark.slow
def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(report.schema())


@pytest.mark.parametrize("layers", [[], sequential(4), [undefined_layer("a")]], ids=len)
def test_handmade_documents_follow_the_schema(layers):
    VALIDATOR.validate(document(layers, sick_at="4"))
    VALIDATOR.validate(json.loads(report.report_json([document(layers), document(layers)])))


def test_theory_may_speak_of_every_layer_or_have_no_number():
    unsaid = layer("a", predicted=dict.fromkeys(EXPECTED))
    VALIDATOR.validate(explained())
    VALIDATOR.validate(explained([unsaid]))
    VALIDATOR.validate(document(prediction={"reason": "no law", "slope": None, "sources": []}))


PREDICTIONS = {
    "usual": prediction(),
    "one depth": prediction(1, None, None),
    "late": prediction(60, 1, 1, first=1),
    "unknown": unknown_prediction(),
    "no limit": prediction(limit=[], sources=[]),
}


@pytest.mark.parametrize("made", PREDICTIONS.values(), ids=PREDICTIONS)
def test_a_prediction_is_its_own_file(made, tmp_path):
    VALIDATOR.validate(made)
    report.write(tmp_path / "p.json", [made])
    assert json.loads((tmp_path / "p.json").read_text("utf-8")) == made


PREDICTION_BREAKS = {
    "verdict": lambda p: p["depths"][0].update(verdict="FINE"),
    "depth": lambda p: p["depths"][0].update(depth=0),
    "no depths": lambda p: p.update(depths=[]),
    "finding": lambda p: p["depths"][-1]["findings"][0].pop("reason"),
    "limit": lambda p: p["limit"][0].pop("assumes"),
    "source": lambda p: p["sources"][0].update(year=2016),
    "extra": lambda p: p.update(extra=1),
    **{name: lambda p, name=name: p["depths"][0].pop(name) for name in NUMBERS},
}


@pytest.mark.parametrize("break_", PREDICTION_BREAKS.values(), ids=PREDICTION_BREAKS)
def test_a_broken_prediction_fails(break_):
    broken = prediction()
    break_(broken)
    assert not VALIDATOR.is_valid(broken)


def test_a_file_holds_one_prediction_or_diagnoses():
    for mixed in ([prediction(), document()], [prediction(), prediction()]):
        for render in (report.report_json, report.html):
            with pytest.raises(ValueError, match="one prediction or several diagnoses"):
                render(mixed)


def test_a_document_of_another_version_is_refused_by_name():
    old = document(schema="orthoscope.diagnosis/1")
    words = rf"older version \(orthoscope\.diagnosis/1; this one reads {DiagnosisDocument.schema}\): diagnose again"
    for render in (report.terminal, report.text, report.notebook):
        with pytest.raises(ValueError, match=words):
            render(old)


def break_schema(d):
    d["schema"] = "orthoscope.diagnosis/1"


def break_verdict(d):
    d["verdict"] = "FINE"


def break_finding(d):
    d["findings"][0]["color"] = "red"


def break_state(d):
    d["findings"][0]["state"] = "unknown"


def break_layer(d):
    del d["layers"][0]["rms"]


def break_view(d):
    d["layers"][0]["sample_view"]["gap"] = "0.3"


def break_diagnosis(d):
    d["extra"] = 1


def break_input(d):
    d["input"] = None


def break_predicted_input(d):
    d["input"]["predicted"] = dict(EXPECTED)


def break_predicted(d):
    d["layers"][0]["predicted"] = {"rms": 1.0}


def break_unsaid_prediction(d):
    del d["prediction"]


def break_statement(d):
    d["prediction"]["sources"] = ["poole2016"]


BREAKS = [
    break_schema,
    break_verdict,
    break_finding,
    break_state,
    break_layer,
    break_view,
    break_diagnosis,
    break_input,
    break_predicted_input,
    break_predicted,
    break_unsaid_prediction,
    break_statement,
]


@pytest.mark.parametrize("break_", BREAKS)
def test_a_broken_document_fails_alone_and_in_a_report(break_):
    broken = document()
    break_(broken)
    assert not VALIDATOR.is_valid(broken)
    assert not VALIDATOR.is_valid({"schema": ReportDocument.schema, "diagnoses": [broken]})


def test_json_is_strict(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        report.write(tmp_path / "r.json", [document(gap=float("nan"))])
    assert list(tmp_path.iterdir()) == []


def test_a_json_file_holds_what_report_json_says(tmp_path):
    report.write(tmp_path / "r.json", [document()])
    content = (tmp_path / "r.json").read_text("utf-8")
    assert content == report.report_json([document()])
    assert json.loads(content) == {"schema": ReportDocument.schema, "diagnoses": [document()]}


def test_an_unknown_suffix_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"r\.pdf.*\.html or \.json"):
        report.write(tmp_path / "r.pdf", [document()])


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*absent"):
        report.write(tmp_path / "absent" / "r.html", [document()])


def fail(*_):
    raise OSError("disk full")


@pytest.mark.parametrize("step", ["fsync", "replace", "render"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    target = tmp_path / "r.html"
    target.write_text("old")
    if step == "render":
        monkeypatch.setattr(pages, "html", fail)
    else:
        # `Path.replace` calls `os.replace`: the failure comes after the content is on disk.
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        report.write(target, [document()])
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_new_file_can_be_read_by_whom_the_umask_allows(tmp_path):
    report.write(tmp_path / "r.html", [document()])
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "r.html").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_rendering_does_not_import_torch():
    code = "import sys; import orthoscope.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
