"""`orthoscope residual` and `diagnose --deep` as a user meets them."""

import json
from pathlib import Path

import jsonschema
import pytest

from cli.process import orthoscope
from orthoscope import report

pytestmark = pytest.mark.slow

TARGET = "resnet(kind=1, width=16, blocks=4, image_size=8)"


def test_the_answer_comes_first_and_files_are_written(tmp_path: Path) -> None:
    shown = orthoscope("residual", TARGET, "-n", "2", "--html", "r.html", "--json", "r.json", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("VERDICT")
    assert all(key in shown.stdout for key in ("RA1", "RA2", "RA3", "RA4", "layers.3"))
    document = json.loads((tmp_path / "r.json").read_text())
    jsonschema.validate(document, report.schema())
    assert (document["samples"], len(document["blocks"])) == (2, 4)
    assert "VERDICT" in (tmp_path / "r.html").read_text()


def test_json_on_standard_output_is_alone_and_blocks_can_be_named() -> None:
    shown = orthoscope("residual", TARGET, "--json", "-", "--blocks", "layers.1, stem", "--top", "3", "--classes", "2")
    document = json.loads(shown.stdout)
    assert [block["name"] for block in document["blocks"]] == ["layers.1", "stem"]
    assert len(document["blocks"][0]["singular_values"]) == 3
    assert shown.stderr.startswith("VERDICT")


def test_a_diagnosis_can_go_deep() -> None:
    shown = orthoscope("diagnose", TARGET, "--deep", "--json", "-")
    document = json.loads(shown.stdout)
    jsonschema.validate(document, report.schema())
    assert len(document["diagnoses"][0]["residual"]["blocks"]) == 4
    assert "residual alignment" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["residual", "mlp(depth=3)"], "no residual branch was found"),
        (["residual", TARGET, "--blocks", "nothing"], "the model has no module 'nothing'"),
        (["residual", TARGET, "--html", "page.txt"], "does not end in .html"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(arguments: list[str], words: str) -> None:
    shown = orthoscope(*arguments)
    assert shown.returncode == 2
    assert words in shown.stderr
    assert "Traceback" not in shown.stderr
    assert shown.stdout == ""
