"""`orthoscope predict` and `orthoscope errata` as a user meets them."""

import json
from pathlib import Path

import jsonschema
import pytest

from cli.process import orthoscope
from orthoscope import report
from orthoscope_papers.errata import all_errata

pytestmark = pytest.mark.slow

TARGET = "mlp(activation=sigmoid, depth=1..12, width=64)"


def test_predict_answers_first_and_names_its_sources() -> None:
    shown = orthoscope("predict", TARGET)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("DEEPEST")
    assert "trains up to depth" in shown.stdout
    assert "schoenholz2017" in shown.stdout


def test_predict_writes_page_and_json(tmp_path: Path) -> None:
    shown = orthoscope("predict", TARGET, "--html", "p.html", "--json", "p.json", "-n", "32", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    document = json.loads((tmp_path / "p.json").read_text())
    jsonschema.validate(document, report.schema())
    assert document["samples"] == 32
    assert "DEEPEST" in (tmp_path / "p.html").read_text()


def test_several_networks_are_compared_in_one_table() -> None:
    shown = orthoscope("predict", TARGET, "mlp(activation=identity, init=orthogonal, depth=1..12)")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert "check that fails" in lines[0]
    assert "sample angles" in shown.stdout
    assert "12 of 12" in shown.stdout


def test_a_depth_that_must_be_reached_sets_the_exit_code() -> None:
    assert orthoscope("predict", TARGET, "--at-least", "10").returncode == 1
    assert orthoscope("predict", TARGET, "--at-least", "1").returncode == 0


def test_json_of_a_prediction_on_standard_output_is_alone() -> None:
    shown = orthoscope("predict", TARGET, "--json", "-", "--overlap", "0.5")
    assert json.loads(shown.stdout)["overlap"] == 0.5
    assert shown.stderr.startswith("DEEPEST")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "mlp(activation=nope)"], "unknown activation 'nope'"),
        (["predict", "resnet(kind=1)"], "no prediction for resnet"),
        (["predict", TARGET, "-n", "1"], "at least 2"),
        (["predict", TARGET, "--overlap", "2"], "mean cosine"),
        (["predict", TARGET, "--html", "page.txt"], "does not end in .html"),
        (["predict"], "no network was named"),
        (["predict", TARGET, TARGET, "--html", "page.html"], "one network at a time"),
        (["predict", "mlp(depth=3, depth=4)"], "'depth' more than once"),
        (["errata", "theorem-99"], "no erratum has 'theorem-99' in its key"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments: list[str], words: str) -> None:
    shown = orthoscope(*arguments)
    assert shown.returncode == 2
    assert words in shown.stderr
    assert len(shown.stderr.strip().splitlines()) == 1
    assert shown.stdout == ""


def test_errata_lists_what_is_printed_what_refutes_it_and_what_holds() -> None:
    shown = orthoscope("errata", "lu2024")
    assert shown.returncode == 0, shown.stderr
    own = [erratum for erratum in all_errata() if "lu2024" in erratum.key]
    for words in ("printed", "but", "corrected", "why"):
        assert shown.stdout.count(f"\n  {words} ") >= len(own)
    assert shown.stdout.count("fails") >= len(own)
    assert "joudaki2024-" not in shown.stdout


def test_errata_as_json_hold_every_record() -> None:
    rows = json.loads(orthoscope("errata", "--json").stdout)
    assert [row["key"] for row in rows] == [erratum.key for erratum in all_errata()]
    assert all("fails" in row["printed_at_case"] and "holds" in row["corrected_at_case"] for row in rows)
