"""`orthoscope compare`: two saved diagnoses, in a terminal, as Markdown and as a document."""

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch

import orthoscope
from orthoscope import cli, report
from orthoscope.prescriptions.comparison import compared_files
from orthoscope.report.document import to_data

pytestmark = pytest.mark.slow


def diagnosed(activation: str, name: str = "net", width: int = 32) -> orthoscope.Diagnosis:
    generator = torch.Generator().manual_seed(0)
    init = "torch" if activation == "relu" else "orthogonal"
    model = orthoscope.models.MLP(depth=30, width=width, activation=activation, init=init, generator=generator)
    return orthoscope.diagnose(model, torch.randn(24, width, generator=generator), name=name)


@pytest.fixture(scope="module")
def pair() -> tuple[orthoscope.Diagnosis, orthoscope.Diagnosis]:
    return diagnosed("relu"), diagnosed("tanh")


def run(*words: str) -> int:
    return int(cli.app(list(words), exit_on_error=False, print_error=False, result_action="return_value"))


def test_files_are_compared_as_the_diagnoses_are(
    pair: tuple[orthoscope.Diagnosis, orthoscope.Diagnosis], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = (tmp_path / name for name in ("before.json", "after.json"))
    pair[0].save(before)
    pair[1].save(after)
    (document,) = compared_files(before, after)
    expected = orthoscope.compare(*pair)
    assert to_data(document) == json.loads(expected.to_json())
    assert to_data(document.before) == json.loads(before.read_text())["diagnoses"][0]
    jsonschema.validate(to_data(document), report.schema())
    assert run("compare", str(before), str(after), "--markdown", "-", "--fail-if-worse") == 0
    shown = capsys.readouterr()
    assert shown.out == expected.markdown()
    assert shown.err.startswith("COMPARED")
    assert run("compare", str(after), str(before), "--markdown", str(tmp_path / "comment.md"), "--fail-if-worse") == 1
    assert (tmp_path / "comment.md").read_text().startswith("**Orthoscope: HEALTHY → SICK**")
    assert run("compare", str(before), str(after), "--html", str(tmp_path / "page.html")) == 0
    page = (tmp_path / "page.html").read_text()
    assert page == report.html([document])


def test_several_networks_are_paired_by_name(pair: tuple[orthoscope.Diagnosis, ...], tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    first, second = pair[0].as_document(), pair[1].as_document()
    report.write(one, [first, replace(second, name="other")])
    report.write(two, [replace(first, name="new"), replace(second, name="net")])
    assert [document.name for document in compared_files(one, two)] == ["net"]
    report.write(two, [replace(first, name="new")])
    with pytest.raises(ValueError, match="no network of the same name"):
        compared_files(one, two)
    report.write(one, [first, first])
    with pytest.raises(ValueError, match="one name is there twice"):
        compared_files(one, two)


def test_other_files_are_refused_in_one_sentence(tmp_path: Path) -> None:
    missing, broken, deep, other = (tmp_path / f"{name}.json" for name in ("missing", "broken", "deep", "other"))
    deep.write_text("[" * 200_000)
    broken.write_text("{")
    other.write_text('{"schema": "orthoscope.prediction/1"}')
    for path, sentence in (
        (missing, "there is no file"),
        (broken, "is no saved diagnosis"),
        (deep, "is no saved diagnosis"),
        (other, r"it has the schema .orthoscope\.prediction/1"),
    ):
        with pytest.raises(ValueError, match=sentence):
            compared_files(path, path)
