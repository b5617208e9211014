"""A fix is tried on copies, kept by the rule, and done again by its snippet; what it cannot judge it refuses."""

import copy
import json
import math
from pathlib import Path

import jsonschema
import pytest
import torch
from torch import Tensor, nn

import orthoscope
from orthoscope import report
from orthoscope.cli._fix_target import write_weights
from orthoscope.diagnosis.inspection import doubt_that_drawn
from orthoscope.findings import Verdict
from orthoscope.models import MLP
from orthoscope.prescriptions import FixOutcome, Prescription, fixes
from orthoscope.prescriptions import trials as fixing
from orthoscope.prescriptions.comparison import Axes, Axis, kept
from orthoscope.prescriptions.prescription import Change
from orthoscope.report.document import FixDocument

BATCH = torch.randn(32, 16, generator=torch.Generator().manual_seed(0))
HEALTHY, AT_RISK, SICK = Verdict.HEALTHY, Verdict.AT_RISK, Verdict.SICK


def sick(**arguments: object) -> MLP:
    options = {"depth": 20, "width": 16, "init": "torch", "out_features": 10, **arguments}
    return MLP(**options, generator=torch.Generator().manual_seed(0))  # type: ignore[arg-type]


def plane(forward: tuple[Verdict, float], backward: tuple[Verdict, float]) -> Axes:
    return Axes(Axis(*forward), Axis(*backward), max(forward[0], backward[0], key=lambda verdict: verdict.rank))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            ((SICK, 0.9), (HEALTHY, 1.0)),
            ((HEALTHY, 0.3), (HEALTHY, 3.0)),
            True,
        ),  # the healthy axis may move within health
        (((SICK, 0.9), (HEALTHY, 1.0)), ((HEALTHY, 0.3), (AT_RISK, 5.0)), False),  # but not out of it
        (((SICK, 0.9), (SICK, 9.0)), ((HEALTHY, 0.3), (SICK, 9.0)), False),  # both were sick: one is not enough
        (((SICK, 0.9), (SICK, 9.0)), ((SICK, 0.8), (SICK, 8.0)), True),  # better by the numbers
        (((SICK, 0.9), (SICK, 9.0)), ((SICK, 0.9), (SICK, 8.0)), False),
        (((SICK, math.inf), (SICK, math.inf)), ((AT_RISK, 0.9), (HEALTHY, 0.0)), True),  # not finite before
        (((HEALTHY, 0.2), (AT_RISK, 5.0)), ((HEALTHY, 0.2), (SICK, 4.0)), False),  # the verdict gets no worse
    ],
)
def test_the_rule_by_which_a_change_is_kept(
    before: tuple[tuple[Verdict, float], ...], after: tuple[tuple[Verdict, float], ...], expected: bool
) -> None:
    assert kept(plane(*before), plane(*after)) is expected


@pytest.fixture(scope="module")
def network() -> MLP:
    return sick()


@pytest.fixture(scope="module")
def fixed(network: MLP) -> orthoscope.Fix:
    return orthoscope.fix(network, BATCH)


def test_a_sick_network_becomes_healthy_and_the_original_keeps_every_bit(network: MLP, fixed: orthoscope.Fix) -> None:
    assert (fixed.before.verdict, fixed.after.verdict) == (SICK, HEALTHY)
    assert fixed.outcome is FixOutcome.FIXED
    twin = sick()
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), twin.parameters(), strict=True))
    assert repr(network) == repr(twin)
    assert not torch.equal(fixed.model(BATCH), network(BATCH))
    again = orthoscope.diagnose(fixed.model, BATCH)
    assert (again.verdict, again.gap, again.slope) == (HEALTHY, fixed.after.gap, fixed.after.slope)


def test_the_snippet_makes_the_fixed_network_out_of_a_fresh_one(fixed: orthoscope.Fix) -> None:
    assert "model = ..." in fixed.snippet
    code = fixed.snippet.replace("model = ...", "model = built").replace("batch = ...", "batch = given")
    names = {"built": sick(), "given": BATCH}
    exec(code, names)
    assert torch.equal(names["built"](BATCH), fixed.model(BATCH))  # type: ignore[operator]


@pytest.mark.slow
def test_a_plan_is_applied_in_place_and_optimizers_keep_their_parameters(fixed: orthoscope.Fix) -> None:
    model = sick()
    parameters = list(model.parameters())
    done = orthoscope.prescribe(orthoscope.diagnose(model, BATCH)).apply_(model, BATCH)
    assert [step.name for step in done] == [step.name for step in fixed.steps]
    assert torch.equal(model(BATCH), fixed.model(BATCH))
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))


@pytest.mark.slow
def test_a_plan_that_does_not_help_changes_nothing() -> None:
    def harm(model: nn.Module) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()

    model = sick()
    plan = orthoscope.prescribe(orthoscope.diagnose(model, BATCH))
    useless = orthoscope.Plan(plan.diagnosis, (Prescription("zero", "for the test", (Change(harm, "harm"),)),))
    with pytest.raises(ValueError, match="nothing was changed"):
        useless.apply_(model, BATCH)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), sick().parameters(), strict=True))


@pytest.mark.slow
def test_documents_follow_the_schema_and_survive_json(fixed: orthoscope.Fix) -> None:
    for viewed in (fixed, fixed.comparison):
        document = json.loads(viewed.to_json())
        jsonschema.validate(document, report.schema())
    document = fixed.document()
    assert document["schema"] == FixDocument.schema
    assert [step["outcome"] for step in document["steps"]] == ["kept"] * len(fixed.steps)
    assert str(fixed).startswith("FIX")
    assert "orthoscope." in str(fixed)
    broken = {**document, "outcome": "perhaps"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, report.schema())


@pytest.mark.slow
def test_a_comparison_lists_what_vanished_and_pairs_layers(fixed: orthoscope.Fix) -> None:
    comparison = orthoscope.compare(fixed.before, fixed.after)
    assert comparison.improved
    assert not orthoscope.compare(fixed.after, fixed.before).improved
    assert {finding.check for finding in comparison.vanished} >= {"gradient decay"}
    assert not comparison.appeared
    turned = orthoscope.compare(fixed.after, fixed.before)
    assert turned.appeared == comparison.vanished
    document = comparison.document()
    row = next(row for row in document["layers"] if row["name"] == "head")
    for when, diagnosis in (("before", fixed.before), ("after", fixed.after)):
        assert document[when]["layers"][row[when]]["sample_view"]["gap"] == diagnosis.layers[-1].gap
    assert comparison.markdown().startswith("**Orthoscope: SICK → HEALTHY**")
    assert f"| orthogonality gap | {fixed.before.gap:.3f} |" in comparison.markdown()
    assert "COMPARED" in str(comparison)
    # Where types are checked as it runs, as in tests, another sentence says so.
    with pytest.raises(Exception, match=r"two diagnoses are compared|Type-check error"):
        orthoscope.compare(fixed.before, fixed)  # type: ignore[arg-type]


@pytest.mark.slow
def test_names_in_markdown_cannot_break_the_table() -> None:
    diagnosis = orthoscope.diagnose(sick(), BATCH, name="<b>|evil|</b>\n# title")
    assert r"\<b\>\|evil\|\</b\> # title" in orthoscope.compare(diagnosis, diagnosis).markdown()


def test_a_healthy_network_is_left_alone() -> None:
    model = sick(depth=3, init="he", width=32)
    found = orthoscope.fix(model, torch.randn(32, 32, generator=torch.Generator().manual_seed(1)))
    assert found.outcome is FixOutcome.HEALTHY
    assert found.steps == ()
    assert "healthy" in found.sentence
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), found.model.parameters(), strict=True))


@pytest.mark.slow
def test_trained_weights_are_left_alone_until_new_ones_are_allowed() -> None:
    model = sick()
    assert orthoscope.fix(model, BATCH, trained=True).outcome is FixOutcome.TRAINED
    assert orthoscope.fix(model, BATCH, trained=True, reinitialize=True).outcome is FixOutcome.FIXED


@pytest.mark.slow
def test_too_small_a_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"4 samples, too few .* give at least 8"):
        orthoscope.fix(sick(), BATCH[:4])


@pytest.mark.slow
def test_a_batch_without_variety_is_refused() -> None:
    with pytest.raises(ValueError, match="give another batch"):
        orthoscope.fix(sick(), BATCH[:1].repeat(16, 1))


class Hidden(nn.Module):
    """Weights that no module multiplies by."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(0.1 * torch.randn(16, 16)) for _ in range(20))
        self.inner = nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        for weight in self.weights:
            inputs = (inputs @ weight).relu()
        return inputs


def test_a_network_whose_layers_are_never_seen_to_run_is_refused_and_kept() -> None:
    model = Hidden()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match="order in which its weight layers run cannot be found"):
        orthoscope.fix(model, BATCH)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def foreign() -> nn.Sequential:
    """A plain network of torch alone, as deep as it is sick, its weights as torch draws them."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [layer for _ in range(12) for layer in (nn.Linear(16, 16), nn.ReLU(inplace=True))]
        return nn.Sequential(*layers, nn.Linear(16, 10))


@pytest.mark.slow
def test_fresh_weights_of_torch_are_changed_in_place_and_trained_ones_only_if_allowed() -> None:
    fresh, model = foreign(), foreign()
    labels = torch.arange(32) % 10
    orthoscope.prescribe(orthoscope.diagnose(fresh, BATCH)).apply_(fresh, BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(BATCH), labels).backward()
        optimizer.step()
    optimizer.zero_grad()
    before = copy.deepcopy(model.state_dict())
    diagnosis = orthoscope.diagnose(model, BATCH)
    assert diagnosis.anatomy.trained == ""
    with pytest.raises(ValueError, match=r"not drawn by torch's default.*prescribe\(diagnosis, trained=False\) allows"):
        orthoscope.prescribe(diagnosis).apply_(model, BATCH)
    assert "on a copy, because your weights may be trained" in orthoscope.fix(model, BATCH).sentence
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    orthoscope.prescribe(diagnosis, trained=False).apply_(model, BATCH)
    assert not torch.equal(model[0].weight, before["0.weight"])


@pytest.mark.parametrize(
    "layer", [nn.Linear(3, 2), nn.Conv2d(4, 6, 3, groups=2), nn.ConvTranspose1d(4, 6, 3)], ids=repr
)
def test_a_layer_is_known_to_be_fresh_until_it_is_moved_shrunk_or_filled(layer: nn.Linear) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        assert doubt_that_drawn(nn.Sequential(copy.deepcopy(layer).to(dtype))) == ""
    large = nn.Linear(30, 30)
    assert doubt_that_drawn(nn.Sequential(large)) == ""
    for change in (lambda w: w + 0.01, lambda w: w * 0.9, lambda w: 0 * w + 0.1):
        moved = copy.deepcopy(large)
        moved.weight.data = change(moved.weight.data)
        assert "'0'" in doubt_that_drawn(nn.Sequential(moved))


def step_to(name: str, forward: tuple[Verdict, float], backward: tuple[Verdict, float]) -> Prescription:
    """A step after which the network is measured to be there."""

    def change(model: nn.Module) -> None:
        model.place = plane(forward, backward)  # type: ignore[assignment]

    return Prescription(name, "for the test", (Change(change, "change"),))


def test_what_the_rule_keeps_is_not_hidden_by_what_it_does_not_and_any_error_is_a_step_that_does_not_apply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = sick(depth=2)
    diagnosis = orthoscope.diagnose(sick(), BATCH)
    start = plane((SICK, 0.9), (HEALTHY, 1.0))

    def fail(model: nn.Module) -> None:
        raise KeyError

    def measured(candidate: nn.Module, *_: object, **__: object) -> object:
        found = copy.copy(diagnosis)
        object.__setattr__(found, "name", candidate.place)
        return found

    monkeypatch.setattr(fixing, "diagnose", measured)
    for room in (fixing, fixes):
        monkeypatch.setattr(room, "axes", lambda found: found.name if isinstance(found.name, Axes) else start)
    steps = (
        Prescription("broken", "for the test", (Change(fail, "fail"),)),
        step_to("harms", (HEALTHY, 0.1), (AT_RISK, 5.0)),  # at risk only, but gradients were healthy
        step_to("helps", (SICK, 0.8), (HEALTHY, 1.0)),
    )
    found = fixing.fix_by_plan(orthoscope.Plan(diagnosis, steps), model, BATCH, steps=1)
    assert [step.name for step in found.steps] == ["helps"]
    assert found.plan[0].outcome == "does not apply: KeyError"


def test_weights_can_be_read_by_whom_the_umask_allows(tmp_path: Path) -> None:
    write_weights(tmp_path / "fixed.safetensors", MLP(depth=2, width=4))
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "fixed.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode
