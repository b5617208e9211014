import json
from pathlib import Path
from typing import Any

import jsonschema
import torch
from torch import nn

from orthoscope import report
from orthoscope.diagnosis import diagnose
from orthoscope.diagnosis.forecast import predict
from orthoscope.models import MLP

VALIDATOR = jsonschema.Draft202012Validator(report.schema())


def assert_every_view(real: dict[str, Any], folder: Path) -> None:
    VALIDATOR.validate(real)
    VALIDATOR.validate(json.loads(report.report_json([real])))
    report.write(folder / "real.html", [real])
    assert real["summary"].split()[0] in report.text(real)


def test_a_real_diagnosis_follows_the_schema_and_has_every_view(tmp_path: Path, generator: torch.Generator) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    real = diagnose(model, torch.randn(12, 8, generator=generator)).document()
    assert_every_view(real, tmp_path)
    assert real["verdict"] in report.text(real)
    assert "no prediction" in report.text(real)


def test_a_real_network_that_theory_covers_shows_what_it_says(tmp_path: Path, generator: torch.Generator) -> None:
    model = MLP(in_features=8, width=32, depth=6, generator=generator)
    real = diagnose(model, torch.randn(12, 8, generator=generator)).document()
    assert_every_view(real, tmp_path)
    assert "theory       overlap 0." in report.text(real)
    assert "line-theory" in (tmp_path / "real.html").read_text("utf-8")


def test_a_real_prediction_follows_the_schema_and_has_every_view(tmp_path: Path) -> None:
    real = predict("mlp(activation=relu, depth=1..40, width=64)", samples=16).document()
    assert_every_view(real, tmp_path)
    report.write(tmp_path / "real.json", [real])
    VALIDATOR.validate(json.loads((tmp_path / "real.json").read_text("utf-8")))
