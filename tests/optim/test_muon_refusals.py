"""Invalid options of Muon are refused when it is constructed, not at its first step."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from optim.optimizers import gaussian
from orthoscope.optim import MatrixView, Muon


def weight_of(*shape: int) -> nn.Parameter:
    return nn.Parameter(gaussian(*shape))


def test_invalid_options_are_refused() -> None:
    weight = weight_of(3, 3)
    refusals: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (TypeError, r"a parameter of shape \(2, 2\) is complex", lambda: Muon([nn.Parameter(torch.eye(2) + 0j)])),
        (TypeError, r"w of shape \(2, 2\) is complex", lambda: Muon([("w", nn.Parameter(torch.eye(2) + 0j))])),
        (
            ValueError,
            r"bias: .*\(3,\) holds no matrix",
            lambda: Muon([{"params": [("bias", weight_of(3))], "use_muon": True}]),
        ),
        (ValueError, r"\(3, 3\) cannot be cut", lambda: Muon([{"params": [weight], "views": MatrixView(parts=2)}])),
        (
            ValueError,
            r"one for each of 1 parameters, got 2",
            lambda: Muon([{"params": [weight], "views": [MatrixView()] * 2}]),
        ),
        (ValueError, r"write 'use_muon'", lambda: Muon([{"params": [weight], "use_moun": True}])),
        (ValueError, r"did you mean 'rms_to_rms'", lambda: Muon([weight], scale="rms_to_rm")),
        (ValueError, r"method must be one of .*'polar_express'.*, got 'svd'", lambda: Muon([weight], method="svd")),
        (ValueError, r"momentum must be at least 0 and less than 1, got 1", lambda: Muon([weight], momentum=1.0)),
        (ValueError, r"lr must be at least 0, got -1", lambda: Muon([weight], lr=-1.0)),
        (ValueError, r"lr must be at least 0, got -2", lambda: Muon([weight], adamw_lr=-2.0)),
        (ValueError, r"weight_decay must be at least 0", lambda: Muon([weight], weight_decay=-1.0)),
        (ValueError, r"adamw_betas must be", lambda: Muon([weight], adamw_betas=(0.9, 1.0))),
        (ValueError, r"adamw_eps must be", lambda: Muon([weight], adamw_eps=-1.0)),
        (ValueError, r"needs at least 1 step, got 0", lambda: Muon([weight], steps=0)),
        (
            TypeError,
            r"steps must be a whole number or None, got 2.5",
            lambda: Muon([{"params": [weight], "steps": 2.5}]),
        ),
        (TypeError, r"process_group must be a group .* got 'x': pass", lambda: Muon([weight], process_group="x")),
        (
            TypeError,
            r"'rational' needs float32 or float64, got dtype=torch.bfloat16: polar_express takes",
            lambda: Muon([weight], method="rational", dtype=torch.bfloat16),
        ),
        (TypeError, r"'exact' needs", lambda: Muon([{"params": [weight], "method": "exact", "dtype": torch.float16}])),
        (TypeError, r"'cans' needs float32 or float64", lambda: Muon([weight], method="cans", dtype=torch.bfloat16)),
        (TypeError, r"a real floating type, got dtype=torch.int8", lambda: Muon([weight], dtype=torch.int8)),
    ]
    for kind, message, build in refusals:
        with pytest.raises(kind, match=message):
            build()


@pytest.mark.slow
def test_arguments_of_a_wrong_type_are_refused_by_name() -> None:
    """In a process of its own, since the type checks of the tests would raise first."""
    script = Path(__file__).with_name("mistyped.py")
    finished = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    for line, expected in zip(finished.stdout.splitlines(), MISTYPED, strict=True):
        assert re.search(expected, line), line


MISTYPED = [
    r"TypeError: parts and groups must be whole numbers, got 2.0 and 1: convert with int\(\)",
    r"TypeError: parts and groups must be whole numbers, got 1 and '2'",
    r"TypeError: steps must be a whole number or None, got 2.5",
    r"TypeError: .*a real floating type, got dtype='float32'",
    r"TypeError: project_ writes to a tensor, got Linear: pass the weight of a layer",
]
