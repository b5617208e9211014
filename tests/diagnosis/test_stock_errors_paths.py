"""No gradient, or too little to judge: nothing of that is HEALTHY; and a head that nothing uses is no symptom."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import orthoscope
from diagnosis.stock_networks import SkipNetwork, classified, finding, found, labels, noted, plain_network, vectors
from orthoscope import State, Verdict, diagnose


class Broken(nn.Module):
    """A body and a head, connected with the output in several wrong ways."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.fault = plain_network(), nn.Linear(10, 10), fault

    def forward(self, inputs: Tensor) -> Tensor:
        if self.fault == "no grad":
            with torch.no_grad():
                return self.head(self.body(inputs))
        hidden = self.body(inputs)
        if self.fault == "no grad in the head":
            with torch.no_grad():
                return self.head(hidden)
        logits = self.head(hidden.detach() if self.fault == "detached body" else hidden)
        if self.fault == "detached output":
            return logits.detach()
        return logits.argmax(-1) if self.fault == "argmax" else logits


@pytest.mark.parametrize(
    ("fault", "layer", "cause"),
    [
        ("detached output", "head", "head"),
        ("argmax", "head", "head"),
        ("no grad in the head", "body.6", "head"),
        ("no grad", "body.0", "body.0"),
    ],
)
def test_an_output_without_a_gradient_path_is_sick_and_the_end_of_the_path_is_named(
    fault: str, layer: str, cause: str
) -> None:
    diagnosis = diagnose(Broken(fault), vectors())
    assert diagnosis.verdict is Verdict.SICK
    assert diagnosis.symptoms == ("disconnected",)
    path = finding(diagnosis, "gradient path")
    assert (path.layer, path.cause) == (layer, cause)
    assert "requires_grad" in diagnosis.next_steps[0]


def test_the_same_network_without_a_fault_is_healthy() -> None:
    assert diagnose(Broken("none"), vectors()).verdict is Verdict.HEALTHY


def test_a_detached_part_is_named() -> None:
    diagnosis = diagnose(Broken("detached body"), vectors())
    assert diagnosis.verdict is Verdict.AT_RISK
    assert finding(diagnosis, "gradient connected").layer == "body.6"


def test_a_detached_branch_is_not_taken_for_an_unused_head() -> None:
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch, self.trunk = nn.Linear(24, 24), SkipNetwork()

        def forward(self, inputs: Tensor) -> Tensor:
            return self.trunk(inputs + self.branch(inputs).detach())

    torch.manual_seed(0)
    diagnosis = diagnose(Detached(), vectors())
    assert found(diagnosis) == {"gradient connected"}
    assert finding(diagnosis, "gradient connected").layer == "branch"


class Pooled(nn.Module):
    """Returns logits and a pooled vector, as encoders of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.pooler = SkipNetwork(), nn.Linear(24, 24)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body.blocks(inputs)
        return self.body.head(hidden), self.pooler(hidden).tanh()


def test_an_unused_head_is_a_note() -> None:
    diagnosis = diagnose(
        Pooled(), (vectors(), labels(32)), lambda output, target: functional.cross_entropy(output[0], target)
    )
    assert diagnosis.verdict is Verdict.HEALTHY
    assert diagnosis.recording.unused == {"pooler"}
    assert noted(diagnosis, "unused heads get no gradient, because nothing depends on them: pooler")


def test_a_used_head_is_not_unused() -> None:
    loss = lambda output, target: functional.cross_entropy(output[0], target) + output[1].square().mean()  # noqa: E731
    assert not diagnose(Pooled(), (vectors(), labels(32)), loss).recording.unused


def test_a_frozen_network_is_sick_and_a_frozen_body_is_not() -> None:
    frozen, head_only = Broken("none"), Broken("none")
    frozen.requires_grad_(False)
    head_only.body.requires_grad_(False)
    diagnosis = diagnose(frozen, vectors())
    assert diagnosis.verdict is Verdict.SICK
    assert found(diagnosis) == {"trainable parameters"}
    assert diagnose(head_only, vectors()).verdict is Verdict.HEALTHY


def test_a_batch_of_one_is_unknown_with_a_reason_and_without_a_risk() -> None:
    diagnosis = diagnose(Broken("none"), vectors(samples=1))
    assert diagnosis.verdict is Verdict.UNKNOWN
    assert math.isnan(diagnosis.risk)
    assert "one sample" in diagnosis.summary
    assert "at least 8 samples" in diagnosis.next_steps[0]
    assert diagnosis.document()["risk"]["value"] is None


def test_a_batch_of_one_may_still_show_what_is_sick() -> None:
    assert diagnose(Broken("detached output"), vectors(samples=1)).verdict is Verdict.SICK


def test_unknown_is_between_healthy_and_at_risk() -> None:
    assert sorted(Verdict, key=lambda verdict: verdict.rank) == ["HEALTHY", "UNKNOWN", "AT RISK", "SICK"]
    diagnosis = diagnose(Broken("none"), vectors(samples=1))
    assert not orthoscope.prescribe(diagnosis), "nothing is known that could be cured"
    assert "UNKNOWN" in str(diagnosis)


@pytest.mark.parametrize("samples", [1, 2, 32])
@pytest.mark.parametrize("depth", [1, 3, 40])
def test_risk_and_verdict_never_disagree(depth: int, samples: int) -> None:
    torch.manual_seed(0)
    diagnosis = diagnose(plain_network(depth), vectors(samples=samples))
    worst = max((one.severity for one in diagnosis.findings), key=lambda severity: severity.rank)
    if diagnosis.verdict is Verdict.UNKNOWN:
        assert math.isnan(diagnosis.risk)
        assert worst is Verdict.HEALTHY
    else:
        assert diagnosis.verdict is worst
        assert (diagnosis.risk > 0.5) is (worst is Verdict.SICK)
        assert (diagnosis.risk < 0.2) is (worst is Verdict.HEALTHY)


def test_a_quantized_weight_is_left_out_with_a_reason() -> None:
    class Quantized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randint(-8, 8, (24, 24), dtype=torch.int8), requires_grad=False)

        def forward(self, inputs: Tensor) -> Tensor:
            return inputs @ (self.weight.float() / 24).T

    torch.manual_seed(0)
    diagnosis = diagnose(nn.Sequential(Quantized(), nn.ReLU(), plain_network()), vectors())
    assert diagnosis.recording.parameter_table.skipped.keys() == {"0.weight"}
    assert noted(diagnosis, "quantized")


def test_the_optimizer_is_kept_and_an_unknown_one_refused() -> None:
    diagnosis = classified(plain_network(), vectors(), optimizer="sgd")
    assert diagnosis.optimizer == "sgd"
    assert diagnosis.document()["optimizer"] == "sgd"
    with pytest.raises(ValueError, match="the optimizer is 'adagrad', expected one of 'adamw', 'sgd', 'muon'"):
        classified(plain_network(), vectors(), optimizer="adagrad")


def test_every_finding_that_was_not_checked_says_why() -> None:
    findings = diagnose(Broken("none"), vectors(samples=1)).findings
    assert all(one.reason for one in findings if one.state is State.NOT_CHECKED)
