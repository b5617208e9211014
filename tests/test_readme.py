"""What the README shows is what happens: its commands are real, its first two are as promised."""

import re
import shlex
from pathlib import Path

import pytest

from cli.process import orthoscope

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, flags=re.DOTALL)


def test_the_first_commands_are_make_demo_and_make_test() -> None:
    language, first = BLOCKS[0]
    assert language == "sh"
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]


COMMANDS = [
    line.split("#")[0].strip()
    for language, code in BLOCKS
    if language == "sh"
    for line in code.splitlines()
    if line.startswith(("orthoscope diagnose ", "orthoscope predict ", "orthoscope errata", "orthoscope plan-muon "))
    if "mypkg" not in line and "timm" not in line
]
# What the first line of the answer begins with.
ANSWERS = {
    "diagnose": ("VERDICT",),
    "predict": ("DEEPEST", "network"),
    "errata": ("lu2024",),
    "plan-muon": ("MUON",),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in COMMANDS if c.split("#")[0].strip() != "orthoscope diagnose"])
def test_the_commands_of_the_readme_run(command: str, tmp_path: Path) -> None:
    verb, *arguments = shlex.split(command)[1:]
    shown = orthoscope(verb, *arguments, cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(ANSWERS[verb])
    if verb == "plan-muon":
        table = [line.rstrip() for line in shown.stdout.splitlines()[2:9]]
        assert table == next(code for language, code in BLOCKS if "momentum  temporary" in code).splitlines()
