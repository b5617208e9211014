import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from torch import nn

from orthoscope import diagnose, report, watch
from orthoscope.cli.plan_muon import plan_document
from orthoscope.diagnosis.forecast import predict
from orthoscope.models import MLP
from orthoscope.optim.muon.cost import muon_cost
from orthoscope.report.document import to_data

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


@pytest.mark.slow
def test_a_real_network_that_theory_covers_shows_what_it_says(tmp_path: Path, generator: torch.Generator) -> None:
    model = MLP(in_features=8, width=32, depth=6, generator=generator)
    real = diagnose(model, torch.randn(12, 8, generator=generator)).document()
    assert_every_view(real, tmp_path)
    assert "theory       predicted orthogonality gap 0." in report.text(real)
    assert "theory       predicted orthogonality gap 0." in (tmp_path / "real.html").read_text("utf-8")


@pytest.mark.slow
def test_a_real_prediction_follows_the_schema_and_has_every_view(tmp_path: Path) -> None:
    real = predict("mlp(activation=relu, depth=1..40, width=64)", samples=16).document()
    assert_every_view(real, tmp_path)
    report.write(tmp_path / "real.json", [real])
    VALIDATOR.validate(json.loads((tmp_path / "real.json").read_text("utf-8")))


@pytest.fixture
def real_watch(generator: torch.Generator) -> dict[str, Any]:
    """With a matrix, one that becomes infinite, so that most of its numbers are null, and one that is skipped."""
    model = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 20))
    with watch(model, every=2, largest=10, updates=True) as watched:
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for rate in (0.1, 0.1, torch.inf):
            optimizer.param_groups[0]["lr"] = rate
            model(torch.randn(4, 8, generator=generator)).square().mean().backward()
            optimizer.step()
    document: dict[str, Any] = json.loads(watched.to_json())
    assert [row["update_norm"] is None for row in document["rows"]] == [False, True]
    assert [skipped["name"] for skipped in document["skipped"]] == ["1.weight"]
    return document


@pytest.fixture
def real_plans() -> dict[str, Any]:
    clusters: list[dict[str, Any]] = [
        {"layout": "fsdp"},
        {"layout": "ddp", "ranks": 1},
        {"layout": "hsdp", "shards": 2},
    ]
    plans: dict[str, Any] = to_data(plan_document([muon_cost([(6, 4), (5, 5)], **cluster) for cluster in clusters]))
    return plans


def test_a_real_watch_follows_the_schema(real_watch: dict[str, Any]) -> None:
    VALIDATOR.validate(real_watch)


def test_a_watch_that_lacks_anything_does_not(real_watch: dict[str, Any]) -> None:
    for place in (real_watch, real_watch["rows"][0], real_watch["skipped"][0]):
        assert_all_is_required(real_watch, place)


def test_real_plans_follow_the_schema(real_plans: dict[str, Any]) -> None:
    VALIDATOR.validate(real_plans)


def test_plans_that_lack_anything_do_not(real_plans: dict[str, Any]) -> None:
    for place in (real_plans, real_plans["plans"][0], real_plans["plans"][0]["bytes_sent_by_call"]["agreement"]):
        assert_all_is_required(real_plans, place)


def assert_all_is_required(document: dict[str, Any], place: dict[str, Any]) -> None:
    """No field of a part of the document can be left out, and none can be added."""
    assert place
    for name in list(place):
        value = place.pop(name)
        assert not VALIDATOR.is_valid(document), name
        place[name] = value
    place["extra"] = 1
    assert not VALIDATOR.is_valid(document)
    del place["extra"]
    assert VALIDATOR.is_valid(document)
