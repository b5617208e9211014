"""Every example runs in a process of its own and comes to the conclusion that its docstring states."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(path.name for path in EXAMPLES.glob("*.py"))
SECONDS = 300  # an example takes at most 30; other tests keep the machine busy
# Threads that wait for one another are slow where other processes use the same cores.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def output(name: str, code: int = 0) -> str:
    """What the example prints; it must end with this exit code."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=SECONDS, env=ONE_THREAD
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def numbers_after(text: str, found: str) -> list[float]:
    """The number that follows each occurrence of the words."""
    return [float(number) for number in re.findall(re.escape(found) + r"\s*(-?[\d.]+\d|\d)", text)]


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_says_what_it_shows_and_how_long_it_takes(name: str) -> None:
    source = (EXAMPLES / name).read_text()
    assert len(source.splitlines()) < 80
    docstring = ast.get_docstring(ast.parse(source))
    assert docstring is not None
    assert re.search(r"Takes\s+(about\s+)?\d+\s+seconds", docstring)
    assert f"test_{name}" in TESTED


@pytest.mark.slow
def test_broken_mlp_fixed() -> None:
    printed = output("broken_mlp_fixed.py")
    assert "verdict: SICK, rank collapse" in printed
    assert "SICK → HEALTHY by orthogonal weights" in printed
    (broken,), (fixed,) = numbers_after(printed, "without the fix:"), numbers_after(printed, "with the fix:")
    assert broken < 20, "a network that always gives one answer is right for one digit in ten"
    assert fixed > 75


@pytest.mark.slow
def test_gpt_by_hand() -> None:
    printed = output("gpt_by_hand.py")
    assert "with residual connections: HEALTHY" in printed
    assert "without residual connections: SICK" in printed
    ranks = numbers_after(printed, "effective rank")
    assert min(ranks[:3]) > 10
    assert ranks[3:] == sorted(ranks[3:], reverse=True)
    assert ranks[-1] < 1.1, "all tokens of a sequence are alike"


@pytest.mark.slow
@pytest.mark.zoo
def test_stock_resnet() -> None:
    printed = output("stock_resnet.py")
    assert "ResNet-34: HEALTHY" in printed
    with_norm, without = numbers_after(printed, "effective rank at the output:")
    assert without < with_norm / 3
    assert all(0.9 < factor < 1.2 for factor in numbers_after(printed, "a factor of"))


def test_stock_resnet_without_the_extra_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "timm.py").write_text("raise ModuleNotFoundError(\"No module named 'timm'\", name='timm')")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "stock_resnet.py")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**ONE_THREAD, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert 'pip install "orthoscope[zoo]"' in done.stderr


@pytest.mark.slow
def test_training_with_muon() -> None:
    printed = output("training_with_muon.py")
    muon, adamw = numbers_after(printed, "loss")
    assert muon < adamw - 0.2
    even, uneven = numbers_after(printed, "an update")
    assert even > 60 > 2 * uneven - 10


@pytest.mark.slow
def test_orthogonal_rnn_copying_task() -> None:
    printed = output("orthogonal_rnn_copying_task.py")
    orthogonal, unconstrained, guessing = numbers_after(printed, "loss")
    assert orthogonal < guessing / 3, "it remembers"
    assert unconstrained > guessing / 1.5, "it does not"


@pytest.mark.slow
def test_trainability_gate_ci() -> None:
    printed = output("trainability_gate_ci.py", code=1)
    assert "orthogonal weights: HEALTHY (no symptom)" in printed
    assert "torch weights: SICK" in printed
    gate = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(EXAMPLES)]
    asserted = subprocess.run(
        [*gate, "-c", os.devnull, str(EXAMPLES / "trainability_gate_ci.py")],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=ONE_THREAD,
    )
    assert "2 passed" in asserted.stdout, asserted.stdout


TESTED = {f"{name}.py" for name in globals() if name.startswith("test_")}
