"""`orthoscope fix` as a user meets it: mends, writes, and refuses in one sentence."""

import json
from pathlib import Path

import jsonschema
import pytest
import torch
from safetensors.torch import load_file

from cli.process import orthoscope
from orthoscope import cli, report

pytestmark = pytest.mark.slow

SICK = "mlp(depth=20, width=64, init=torch)"


def test_a_sick_network_is_mended_confirmed_and_written(tmp_path: Path) -> None:
    shown = orthoscope("fix", SICK, "--output", "out", "--steps", "80", "--html", "fix.html", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("FIX          does not train → trains by ")
    assert "(SICK → HEALTHY)" in " ".join(shown.stdout.partition("\n\n")[0].split())
    assert "(model" in shown.stdout
    document = json.loads((tmp_path / "out/fix.json").read_text())
    jsonschema.validate(document, report.schema())
    assert document["confirmation"]["before"]["confirmed"] is True
    assert document["confirmation"]["after"]["confirmed"] is True
    assert (tmp_path / "fix.html").read_text() == report.html([document])
    names: dict[str, object] = {}
    exec((tmp_path / "out/fix.py").read_text(), names)  # from another folder: the code names the file in full
    model = names["model"]
    assert isinstance(model, torch.nn.Module)
    written = load_file(tmp_path / "out/fixed.safetensors")
    assert written
    assert all(torch.equal(model.state_dict()[name], value) for name, value in written.items())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"fix.json", "fix.py", "fixed.safetensors"}


def test_a_diagnosis_of_one_sick_network_ends_with_the_command_that_mends_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def last_line(*words: str) -> str:
        cli.app(["diagnose", *words], exit_on_error=False, print_error=False, result_action="return_value")
        return capsys.readouterr().out.rstrip().splitlines()[-1]

    command = "orthoscope fix 'mlp(depth=20, width=64, init=torch)'"
    assert last_line(SICK) == f"{'':13}{command}"
    assert last_line(SICK, "-n", "32", "--seed", "3") == f"{'':13}{command} --samples 32 --seed 3"
    assert "orthoscope fix" not in last_line("mlp(depth=3, width=64)")
    assert "orthoscope fix" not in last_line(SICK, SICK)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """In this process, as `main` does it: starting Python takes longer than a refusal."""
    try:
        code = cli.app(["fix", *arguments], exit_on_error=False, print_error=False)
    except SystemExit as ended:
        code = ended.code
    except ValueError as error:
        return cli.BAD_INPUT, str(error)
    captured = capsys.readouterr()
    return int(code or 0), captured.out + captured.err


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("mlp(depth=3, width=64)",), 0, "the network is healthy: nothing was changed"),
        ((SICK, "-n", "4"), 2, "the batch has 4 samples, too few"),
        ((SICK, "--trained"), 1, "the weights are left unchanged"),
        ((SICK, "--weights", "out.bin"), 2, "does not end in .safetensors"),
        ((SICK, "--output", "out", "--json", "-"), 2, "give it alone"),
        (("hidden.py::Hidden", "--batch", "hidden.py::batch"), 2, "weight layers run cannot be found"),
        (("nothing(3)",), 2, "is not a target"),
    ],
)
def test_what_cannot_or_need_not_be_fixed_is_one_sentence_and_no_file(
    arguments: tuple[str, ...],
    code: int,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hidden.py").write_text(
        "import torch\n"
        "class Hidden(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weights = torch.nn.ParameterList(torch.nn.Parameter(torch.randn(8, 8) / 9) for _ in range(9))\n"
        "    def forward(self, inputs):\n"
        "        for weight in self.weights:\n"
        "            inputs = (inputs @ weight).relu()\n"
        "        return inputs\n"
        "def batch():\n"
        "    return torch.randn(16, 8)\n"
    )
    places = () if "--weights" in arguments or "--output" in arguments else ("--output", "out")
    found, said = run(capsys, *arguments, *places, "--no-confirm")
    assert found == code
    assert sentence in " ".join(said.split())
    assert {path.name for path in tmp_path.iterdir()} <= {"hidden.py", "__pycache__"}
