"""Steps compiled by `torch.compile`."""

import subprocess
import sys
from pathlib import Path

import pytest

from orthoscope.linalg import METHODS

pytestmark = pytest.mark.slow


def test_compiled_steps_move_a_large_matrix_as_plain_ones_do() -> None:
    """In a process of its own, since `torch.compile` cannot trace the type checks of the tests."""
    script = Path(__file__).with_name("compiled_steps.py")
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    muons = [f"Muon {method}" for method in METHODS]
    assert finished.stdout.splitlines() == [*muons, "RiemannianSGD", "RiemannianAdam", "Landing"]
