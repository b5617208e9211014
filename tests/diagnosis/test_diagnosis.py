"""The verdict: what is found, where it begins, and what was not looked at."""

import itertools
import json
import math
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import Tensor, nn

import orthoscope
from orthoscope import State, Symptom, Verdict, diagnose, report
from orthoscope.diagnosis import RULES, Diagnosis
from orthoscope.diagnosis.checks import lasting_start, lasting_value
from orthoscope.models import MLP
from orthoscope.report.document import DiagnosisDocument


def batch(samples: int = 100, units: int = 100, seed: int = 0) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(seed))


def mlp(**options: object) -> MLP:
    return MLP(**{"generator": torch.Generator().manual_seed(1), **options})


def states(diagnosis: Diagnosis, symptom: Symptom) -> set[State]:
    return {finding.state for finding in diagnosis.findings if finding.symptom is symptom}


@pytest.mark.slow
def test_orthogonal_tanh_with_gain_is_healthy() -> None:
    diagnosis = diagnose(mlp(activation="tanh", gain=0.3, init="orthogonal"), batch())
    assert diagnosis.verdict is Verdict.HEALTHY
    assert diagnosis.symptoms == ()
    assert diagnosis.first("collapse") is None
    assert abs(diagnosis.slope) < 0.05


@pytest.mark.slow
def test_a_sigmoid_network_collapses_and_its_gradient_vanishes() -> None:
    diagnosis = diagnose(mlp(depth=20, activation="sigmoid", init="xavier"), batch())
    assert diagnosis.verdict is Verdict.SICK
    assert set(diagnosis.symptoms) == {"collapse", "vanish"}
    first, vanished = diagnosis.first("collapse"), diagnosis.first("vanish")
    assert first is not None
    assert int(first.split(".")[1]) <= 4, "samples are one direction after a few layers"
    assert vanished is not None
    assert 10 <= int(vanished.split(".")[1]) < 20, "an e-fold a layer and more: the limit is crossed within ten layers"
    assert diagnosis.slope < -1


@pytest.mark.slow
def test_batch_norm_explodes_at_the_rate_of_theory() -> None:
    r"""Gaussian weights, linear, centered: growth $\tfrac12\log\frac{n-2}{n-3}$ a layer for wide networks."""
    samples = 8
    slopes = []
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        model = MLP(depth=100, width=256, activation="identity", norm="batch", init="gaussian", generator=generator)
        diagnosis = diagnose(model, batch(samples, 256, seed), seed=seed)
        assert "explode" in diagnosis.symptoms
        slopes.append(diagnosis.slope)
    theory = 0.5 * math.log((samples - 2) / (samples - 3))
    assert sum(slopes) / len(slopes) == pytest.approx(theory, rel=0.15)


@pytest.mark.slow
def test_the_slope_has_an_error_that_covers_what_other_seeds_give() -> None:
    model = mlp(depth=60, activation="relu", norm="batch")
    diagnoses = [
        diagnose(mlp(depth=60, norm="batch", generator=torch.Generator().manual_seed(s)), batch(64)) for s in range(6)
    ]
    slopes = torch.tensor([d.slope for d in diagnoses])
    error = diagnose(model, batch(64)).slope_standard_error
    assert 0.3 < float(slopes.std()) / error < 3


def test_a_short_network_has_no_slope_and_says_so() -> None:
    diagnosis = diagnose(nn.Sequential(nn.Linear(100, 20), nn.Tanh(), nn.Linear(20, 5)), batch())
    assert math.isnan(diagnosis.slope)
    assert State.NOT_CHECKED in states(diagnosis, Symptom.EXPLODE)
    assert "not checked" in diagnosis.summary


def test_every_rule_ends_in_one_of_three_states_with_a_reason() -> None:
    diagnosis = diagnose(mlp(depth=4), batch(8))
    assert [finding.check for finding in diagnosis.findings] == [rule.check for rule in RULES]
    assert all(finding.reason for finding in diagnosis.findings)
    assert {finding.state for finding in diagnosis.findings} <= set(State)


def test_a_batch_of_one_sample_checks_gradients_only() -> None:
    diagnosis = diagnose(mlp(depth=5, activation="tanh", init="orthogonal"), batch(1))
    assert states(diagnosis, Symptom.COLLAPSE) == {State.CLEAN, State.NOT_CHECKED}
    assert states(diagnosis, Symptom.DEGENERATE_INPUT) == {State.NOT_CHECKED}
    assert State.CLEAN in states(diagnosis, Symptom.VANISH)


@pytest.mark.parametrize(
    "inputs",
    [batch(1).expand(20, -1), torch.zeros(20, 100), torch.full((20, 100), torch.nan)],
    ids=["one sample repeated", "zeros", "nan"],
)
def test_a_degenerate_batch_is_not_blamed_on_the_network(inputs: Tensor) -> None:
    diagnosis = diagnose(mlp(depth=4, activation="tanh", init="orthogonal"), inputs)
    assert diagnosis.verdict is Verdict.SICK
    assert "degenerate input" in diagnosis.symptoms
    assert diagnosis.first("degenerate input") == "input"


@pytest.mark.slow
def test_tokens_that_are_all_the_same_are_a_degenerate_batch() -> None:
    model = orthoscope.models.Transformer(depth=2, width=32, generator=torch.Generator().manual_seed(0))
    ids = torch.full((8, 16), 3)
    assert "degenerate input" in diagnose(model, ids).symptoms
    varied = torch.randint(256, (8, 16), generator=torch.Generator().manual_seed(0))
    assert "degenerate input" not in diagnose(model, varied).symptoms


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_an_explosion_where_they_are(value: float) -> None:
    model = mlp(depth=5)
    with torch.no_grad():
        model.layers[2].linear.weight[3, 4] = value
    diagnosis = diagnose(model, batch())
    assert diagnosis.verdict is Verdict.SICK
    assert diagnosis.first("explode") == "layers.2.linear"
    assert report.text(diagnosis.document())


def test_a_dead_layer_is_a_collapse() -> None:
    model = mlp(depth=5, bias=True)
    nn.init.constant_(model.layers[2].linear.bias, -1e4)
    assert diagnose(model, batch()).first("collapse") == "layers.2.activation"


@pytest.mark.slow
def test_a_gradient_that_underflows_to_zero_has_vanished() -> None:
    model = mlp(depth=60, activation="tanh", weight_gain=0.1)
    diagnosis = diagnose(model, batch())
    assert "vanish" in diagnosis.symptoms
    assert any(f.check == "gradient arrives" and f.state is State.FOUND for f in diagnosis.findings)


def test_branches_that_start_closed_are_neither_dead_nor_vanished() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = nn.Linear(32, 32), nn.Linear(32, 32)
            nn.init.zeros_(self.last.weight)
            nn.init.zeros_(self.last.bias)

        def forward(self, hidden: Tensor) -> Tensor:
            return hidden + self.last(self.inner(hidden).tanh())

    torch.manual_seed(0)
    diagnosis = diagnose(nn.Sequential(nn.Linear(100, 32), *(Block() for _ in range(6)), nn.Linear(32, 32)), batch(30))
    assert diagnosis.verdict is Verdict.HEALTHY
    assert {layer.status for layer in diagnosis.layers if layer.name.endswith("last")} == {"zero by design"}


def test_rows_have_the_promised_names() -> None:
    row = diagnose(mlp(depth=3), batch(20)).layers[0]
    for name in ("name", "gap", "isometry_gap", "effective_rank", "overlap", "rms", "gradient_norm"):
        assert getattr(row, name) is not None


def test_an_unknown_symptom_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'sneeze' is no symptom: ask for 'collapse', 'vanish'"):
        diagnose(mlp(depth=3), batch(20)).first("sneeze")


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [batch(20), batch(1), torch.full((20, 100), torch.nan)], ids=["plain", "one", "nan"])
def test_the_json_follows_its_schema_and_is_strict(inputs: Tensor) -> None:
    document = json.loads(diagnose(mlp(depth=4), inputs).to_json(), parse_constant=pytest.fail)
    jsonschema.validate(document, report.schema())
    assert document["schema"] == DiagnosisDocument.schema


@pytest.mark.slow
def test_save_writes_html_and_json(tmp_path: Path) -> None:
    diagnosis = diagnose(mlp(depth=4), batch(20), name="<b>mine</b>")
    diagnosis.save(tmp_path / "report.html")
    diagnosis.save(str(tmp_path / "report.json"))
    assert "<b>mine</b>" not in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "report.json").read_text())["diagnoses"][0]["name"] == "<b>mine</b>"
    with pytest.raises(ValueError, match="pdf"):
        diagnosis.save(tmp_path / "report.pdf")


@pytest.mark.slow
def test_printing_a_diagnosis_shows_the_verdict_first() -> None:
    diagnosis = diagnose(mlp(depth=4), batch(20))
    assert str(diagnosis).lstrip().startswith("VERDICT")
    assert diagnosis._repr_html_().startswith("<iframe")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_numbers() -> None:
    first, second = (json.loads(diagnose(mlp(depth=4), batch(20), seed=3).to_json()) for _ in range(2))
    first.pop("seconds"), second.pop("seconds")
    assert first == second


@pytest.mark.parametrize(
    ("low", "start"),
    [
        ("", None),
        ("....", None),
        ("..xx", 2),
        ("x...", None),
        ("..xxxx.xx.", 2),
        ("xx..", None),
        ("x.x.xxxx", 4),
        ("xxx.xxxx", 0),
    ],
)
def test_a_lasting_state_begins_where_it_gains_most(low: str, start: int | None) -> None:
    assert lasting_start([letter == "x" for letter in low]) == start


def test_the_lasting_value_is_the_median_of_the_end() -> None:
    assert lasting_value([9.0, 9.0, 1.0, 2.0, 3.0]) == 2.0
    assert lasting_value([5.0]) == 5.0
    assert lasting_value([0.0] * 90 + [1.0] * 10) == 1.0


def test_one_layer_that_blows_up_is_an_explosion_although_there_is_no_slope() -> None:
    model = mlp(depth=15, activation="identity", init="orthogonal")
    with torch.no_grad():
        model.layers[7].linear.weight *= 1e6
    diagnosis = diagnose(model, batch())
    assert diagnosis.verdict is Verdict.SICK
    assert diagnosis.first("explode") is not None


def test_layers_that_are_cut_off_from_the_output_are_found() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = mlp(depth=3, activation="tanh", init="orthogonal"), nn.Linear(10, 10)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.after(self.before(inputs).detach())

    diagnosis = diagnose(Cut(), batch())
    assert diagnosis.first("vanish") == "before.head"
    frozen = Cut()
    frozen.before.requires_grad_(False)
    assert "vanish" not in diagnose(frozen, batch()).symptoms, "what is frozen asks for no gradient"


def test_a_network_of_zeros_and_one_whose_input_is_ignored_are_sick() -> None:
    zeros = mlp(depth=4)
    for parameter in zeros.parameters():
        nn.init.zeros_(parameter)
    assert diagnose(zeros, batch()).verdict is Verdict.SICK
    torch.manual_seed(0)
    deaf = nn.Sequential(nn.Linear(100, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    nn.init.zeros_(deaf[0].weight)
    assert "collapse" in diagnose(deaf, batch()).symptoms


def test_where_nothing_can_be_judged_the_verdict_is_not_healthy() -> None:
    class Detached(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.detach() * 2

    diagnosis = diagnose(Detached(), batch(1))
    assert not diagnosis.judged
    assert diagnosis.verdict is Verdict.UNKNOWN
    assert diagnosis.summary.startswith("nothing was found, but samples could not be judged")


def test_a_bottleneck_is_not_a_collapse() -> None:
    torch.manual_seed(0)
    sizes = (64, 128, 6, 128, 64)
    layers = [module for a, b in itertools.pairwise(sizes) for module in (nn.Linear(a, b), nn.Tanh())]
    model = nn.Sequential(*layers)
    for layer in model[::2]:
        nn.init.orthogonal_(layer.weight)
    assert "collapse" not in diagnose(model, batch(60, 64)).symptoms


def test_gradients_pass_a_zero_head_also_before_a_softmax() -> None:
    model = nn.Sequential(mlp(depth=5, activation="tanh", init="orthogonal"), nn.Linear(10, 10), nn.LogSoftmax(-1))
    nn.init.zeros_(model[1].weight)
    calls: list[int] = []

    def loss(output: Tensor) -> Tensor:
        calls.extend([1] * torch.is_grad_enabled())  # on constant outputs it is called without
        return -output[:, 0].mean()

    diagnosis = diagnose(model, batch(), loss=loss)
    assert "vanish" not in diagnosis.symptoms
    assert calls == [1]


def test_tokens_are_counted_as_they_were_compared() -> None:
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
    tokens = torch.randn(128, 6, 16, generator=torch.Generator().manual_seed(0))
    shares = [
        next(f.measured.value for f in diagnose(model, tokens[:n]).findings if f.check == "token rank" and f.measured)
        for n in (32, 128)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=0.1)
    assert min(shares) > 0.5
