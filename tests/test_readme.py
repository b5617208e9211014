"""The README is short, its first commands are those of the Makefile, and its numbers are those of committed results."""

import json
import re
from pathlib import Path
from typing import Any

from PIL import Image

from orthoscope_papers.calibration import cure
from orthoscope_papers.results import read_table

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_the_first_commands_are_make_demo_and_make_test() -> None:
    language, first = BLOCKS[0]
    assert language == "sh"
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]


def test_the_picture_is_small_and_described() -> None:
    (description, path) = re.findall(r"!\[(.*?)\]\((.*?)\)", README)[0]
    assert len(description) > 40
    assert (ROOT / path).stat().st_size < 200_000
    with Image.open(ROOT / path) as picture:
        assert picture.width >= 1000


def cost_rows() -> list[str]:
    numbers = json.loads((ROOT / "results/benchmarks/diagnosis.json").read_text())
    return [f"| {row['network']} | {row['diagnose'] / row['plain']:.3g} plain passes |" for row in numbers["networks"]]


def calibration_statements() -> list[str]:
    """The sentences of the README about the verdict, with the numbers of the calibration."""
    saved = json.loads((ROOT / "src/orthoscope/calibration.json").read_text())
    rules, ours = saved["held_out"], saved["held_out"]["orthoscope"]
    kinds = dict(re.findall(r"^\| (\w+) \| \d+ \| (\d+%)", (ROOT / "docs/calibration.md").read_text(), re.MULTILINE))
    assert kinds["mlp"] == kinds["resnet"]
    cured = cure.cured(read_table(ROOT / "results/calibration/cure", cure.Row))
    accuracy = {name: f"{rule['accuracy']:.0%}" for name, rule in rules.items()}
    return [
        *after_steps_statements(saved["after_steps"]),
        f"{saved['networks']} fully connected, residual, convolutional networks and Transformers were diagnosed",
        f"fitted to {saved['fitted_to']} of them; on the {ours['networks']} others",
        f"| right | for {accuracy['orthoscope']} of the networks |",
        f"| false alarms | {ours['false_alarms']:.0%} of the networks that train are called sick |",
        f"| missed | {ours['missed']:.0%} of the networks that do not train are not called sick |",
        f"| fixed | {cured:.0%} of those called sick that did not train do train after",
        f"right for {kinds['mlp']} of fully connected and residual networks, {kinds['convnet']} of convolutional ones "
        f"and {kinds['transformer']} of Transformers.",
        f"variance {accuracy['variance alone']}, mean cosine {accuracy['mean cosine alone']}, "
        f"gradient growth per layer {accuracy['gradient slope alone']}.",
    ]


def after_steps_statements(saved: dict[str, Any]) -> list[str]:
    """The sentences about the verdict for an optimizer."""
    ours = saved["rules"]["orthoscope, after first steps"]
    right = {name: f"{one['accuracy']:.0%}" for name, one in saved["by_optimizer"].items()}
    return [
        f"On {ours['networks']} of families that nothing was fitted to",
        f"right for {right['adamw']} with AdamW, {right['sgd']} with SGD and {right['muon']} with Muon; "
        f"{ours['false_alarms']:.0%} of those that train are called sick, and {ours['caught']:.0%} of those that do "
        f"not train are caught, of Transformers {saved['by_kind']['transformer']['caught']:.0%}.",
    ]


def test_every_number_of_the_readme_is_that_of_committed_results() -> None:
    prose = " ".join(re.sub(r"```.*?```", "", README, flags=re.DOTALL).split())
    for statement in [*cost_rows(), *calibration_statements()]:
        assert statement in prose, statement
        prose = prose.replace(statement, "")
    # What is left: the network of the picture, whose block of code the tests run, and names.
    left = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?", prose)
    assert left == ["3.11", "30", "30", "9"]


def test_the_layer_that_the_readme_names_is_the_one_that_its_code_prints() -> None:
    printed = next(code for language, code in BLOCKS if language == "text")
    assert printed.splitlines()[1] == "rank collapse from layer 9 on"
    assert "By layer 9 the samples" in README
