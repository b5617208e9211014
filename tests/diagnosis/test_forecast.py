"""A network that is not built: numbers by depth, and the depth at which the rules of the verdict call it sick."""

import json
import math
from pathlib import Path

import jsonschema
import pytest
import torch

from orthoscope import Verdict, diagnose, predict, report
from orthoscope.diagnosis.rules import CALIBRATION
from orthoscope.models import TargetError, resolve


@pytest.mark.slow
def test_relu_overlap_follows_the_arc_cosine_map() -> None:
    forecast = predict("mlp(activation=relu, depth=1..30, width=256)")
    cosine = 0.0
    for depth in forecast.depths:
        cosine = (math.sqrt(1 - cosine**2) + (math.pi - math.acos(cosine)) * cosine) / math.pi
        assert depth.expected.overlap == pytest.approx(cosine, abs=1e-10)
        assert depth.gradient_growth == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_batch_norm_ends_where_the_gradient_is_beyond_its_limits() -> None:
    r"""Linear, centered, Gaussian: ½log((n-2)/(n-3)) a layer, against limits that fall a little with depth."""
    forecast = predict("mlp(activation=identity, norm=batch, init=gaussian, depth=1..120, width=512)", samples=8)
    rate = 0.5 * math.log(6 / 5)
    first, sick = forecast.first(Verdict.AT_RISK), forecast.first(Verdict.SICK)
    assert first is not None
    assert sick is not None
    law = CALIBRATION.laws["gradient growth"]
    for found, limit in ((first, CALIBRATION.at_risk("gradient growth")), (sick, law.limit)):
        depth = next(depth for depth in range(1, 120) if rate * depth > limit * ((depth + 1) / 50) ** law.power)
        assert found.depth == pytest.approx(depth, abs=2)
    assert forecast.deepest == first.depth - 1
    assert first.findings[-1].reason
    assert f"trains up to depth {forecast.deepest}" in forecast.summary


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "samples"),
    [
        ("mlp(activation=sigmoid, init=xavier, width=100, depth={depth})", 64),
        ("mlp(activation=tanh, gain=0.3, init=orthogonal, width=100, depth={depth})", 64),
        ("mlp(activation=identity, norm=batch, init=gaussian, width=256, depth={depth})", 8),
        ("mlp(activation=relu, init=torch, bias=True, width=100, depth={depth})", 64),
    ],
)
@pytest.mark.parametrize("depth", [3, 90])
def test_the_verdict_of_theory_is_that_of_the_measurement(target: str, samples: int, depth: int) -> None:
    generator = torch.Generator().manual_seed(0)
    found = resolve(target.format(depth=depth))
    measured = diagnose(found.build(generator), found.batch(samples, generator))
    # One depth is asked for, not all up to it.
    forecast = predict(target.format(depth=f"{depth}..{depth}"), samples=samples)
    assert [row.verdict for row in forecast.depths] == [measured.verdict]


@pytest.mark.slow
def test_a_network_that_trains_at_every_depth_says_so() -> None:
    forecast = predict("mlp(activation=identity, init=orthogonal, depth=1..40)")
    assert forecast.deepest == 40
    assert forecast.first(Verdict.AT_RISK) is None
    assert forecast.summary == "trains at every depth up to 40"


@pytest.mark.slow
def test_a_network_that_never_trains_says_so() -> None:
    forecast = predict("mlp(activation=sigmoid, init=xavier, depth=10..20)")
    assert forecast.deepest is None
    assert forecast.summary.startswith("healthy at no depth; at depth 10, ")


@pytest.mark.slow
def test_a_network_whose_signals_overflow_is_sick_from_there_on() -> None:
    forecast = predict("mlp(activation=cube, init=gaussian, weight_gain=2.0, depth=1..12)")
    sick = forecast.first(Verdict.SICK)
    assert sick is not None
    assert [depth.depth for depth in forecast.depths] == list(range(1, 13))
    last = forecast.depths[-1]
    assert last.verdict is Verdict.SICK
    assert math.isnan(last.expected.overlap)
    assert last.findings[0].symptom == "explode"
    assert "signals overflow at layer" in last.findings[0].reason
    jsonschema.validate(json.loads(json.dumps(forecast.document(), allow_nan=False)), report.schema())
    assert "passes the limit at layer" in forecast.summary


def test_the_last_depth_whose_signals_hold_still_has_its_numbers() -> None:
    forecast = predict("mlp(activation=cube, init=gaussian, weight_gain=2.0, depth=1..12)")
    lost = next(depth for depth in forecast.depths if math.isnan(depth.expected.overlap))
    assert f"at layer {lost.depth}" in lost.findings[0].reason or "at the head" in lost.findings[0].reason


def test_a_signal_lost_in_the_head_alone_is_reported() -> None:
    forecast = predict("mlp(activation=identity, depth=1..4, weight_gain=1e38, init=gaussian)")
    assert forecast.depths[-1].verdict is Verdict.SICK


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "samples", "check"),
    [
        ("mlp(depth=1..30, width=50)", 51, "sample rank"),
        ("mlp(norm=batch, init=orthogonal, activation=tanh, depth=1..20)", 64, "gradient growth"),
    ],
)
def test_what_theory_has_no_number_for_does_not_read_as_health(target: str, samples: int, check: str) -> None:
    forecast = predict(target, samples=samples)
    assert check in [finding.check for finding in forecast.not_checked]
    assert f"not checked: {check}" in forecast.summary
    assert "trains at every depth" not in forecast.summary
    assert check in [row["check"] for row in forecast.document()["not_checked"]]


@pytest.mark.slow
@pytest.mark.parametrize("samples", [2, 3])
def test_batch_norm_of_two_or_three_samples_explodes(samples: int) -> None:
    forecast = predict("mlp(norm=batch, depth=1..10)", samples=samples)
    assert forecast.depths[-1].verdict is Verdict.SICK
    assert "explode" in [finding.symptom for finding in forecast.depths[-1].findings if finding.state == "found"]
    jsonschema.validate(json.loads(json.dumps(forecast.document(), allow_nan=False)), report.schema())
    assert str(forecast).startswith("DEEPEST")


@pytest.mark.slow
def test_places_are_where_a_limit_is_crossed() -> None:
    forecast = predict("mlp(activation=identity, norm=batch, init=gaussian, depth=1..100, width=512)", samples=8)
    (growth,) = [f for f in forecast.depths[-1].findings if f.check == "gradient growth"]
    assert growth.layer is not None
    layers_back = 100 - int(growth.layer.split()[-1])
    law = CALIBRATION.laws["gradient growth"]
    limit = CALIBRATION.at_risk("gradient growth") * (101 / 50) ** law.power
    assert layers_back == pytest.approx(limit / (0.5 * math.log(6 / 5)), abs=3)
    (angles,) = [
        f for f in predict("mlp(activation=sigmoid, depth=40)").depths[-1].findings if f.check == "sample angles"
    ]
    assert angles.layer in ("layer 3", "layer 4")


@pytest.mark.slow
def test_the_document_is_valid_and_strict(tmp_path: Path) -> None:
    forecast = predict("mlp(activation=sigmoid, depth=1..40)")
    document = forecast.document()
    jsonschema.validate(json.loads(json.dumps(document, allow_nan=False)), report.schema())
    assert len(document["depths"]) == 40
    assert all(row["source"] and row["assumes"] for row in [*document["sources"], *document["limit"]])
    for name in ("page.html", "numbers.json"):
        forecast.save(tmp_path / name)
    assert json.loads((tmp_path / "numbers.json").read_text()) == document
    assert "DEEPEST" in (tmp_path / "page.html").read_text()
    assert "sick from depth" in str(forecast)


def test_the_limit_names_the_theorem() -> None:
    limits = {p.name: p for p in predict("mlp(activation=gelu, norm=layer, init=gaussian, depth=5)").limit}
    assert limits["overlap"].value == pytest.approx(0.760402, abs=1e-6)
    assert "joudaki2024" in limits["overlap"].source


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("convnet(depth=3)", "no prediction for convnet"),
        ("vgg", "cannot be predicted"),
        ("mlp(depht=3)", "no argument 'depht'"),
        ("mlp(depth=0)", "depth is 0"),
        ("mlp(depth=9..3)", "depth is '9..3'"),
        ("mlp(depth=deep)", "depth is 'deep'"),
        ("mlp(activation=reluu)", "unknown activation 'reluu'"),
        ("mlp(norm=bach)", "unknown normalization 'bach'"),
        ("mlp(init=hee)", "unknown weight scheme 'hee'"),
        ("mlp(norm=batch, order=activation-norm)", "after the activation"),
        ("mlp(width=0)", "width is 0"),
        ("mlp(out_features=0)", "out_features is 0"),
        ("mlp(out_features=none)", "out_features is 'none'"),
        ("mlp(gain=x)", "gain is 'x', but must be a number"),
        ("mlp(residual=yes)", "residual is 'yes', but must be True or False"),
        ("mlp(residual_scale=x)", "residual_scale is 'x'"),
        ("mlp(bias_std=1)", "needs biases"),
        ("mlp(weight_gain=1e200)", "beyond the range of floats"),
    ],
)
def test_bad_input_gets_one_sentence(target: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        predict(target)


@pytest.mark.parametrize(("samples", "overlap"), [(1, 0.0), (0, 0.0), (8, 1.5), (8, -0.5)])
def test_impossible_batches_are_refused(samples: int, overlap: float) -> None:
    with pytest.raises(ValueError, match=r"at least 2|mean cosine"):
        predict("mlp(depth=3)", samples=samples, overlap=overlap)


def test_a_range_is_for_predictions_only() -> None:
    with pytest.raises(TargetError, match=r"'mlp\(depth=1\.\.5\)' cannot be built"):
        resolve("mlp(depth=1..5)").build(None)
