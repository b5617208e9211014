"""The loss and the scale of the batch are looked at, and the module to change is named."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from diagnosis.stock_networks import (
    ScaledNetwork,
    SkipNetwork,
    classified,
    finding,
    found,
    labels,
    noted,
    plain_network,
    vectors,
)
from orthoscope import Verdict, diagnose
from orthoscope.probe.initial_loss import initial_loss


def skipping(*after: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(SkipNetwork(), *after)


def test_softmax_before_cross_entropy_is_found_at_the_softmax() -> None:
    diagnosis = classified(skipping(nn.Softmax(-1)), vectors())
    assert found(diagnosis) == {"loss fits outputs"}
    assert diagnosis.verdict is Verdict.AT_RISK
    assert finding(diagnosis, "loss fits outputs").cause == "1"
    assert "logits" in diagnosis.next_steps[0]


def test_probabilities_are_no_log_probabilities() -> None:
    batch = (vectors(), labels(32))
    assert found(diagnose(skipping(nn.Softmax(-1)), batch, functional.nll_loss)) == {"loss fits outputs"}
    assert not found(diagnose(skipping(nn.LogSoftmax(-1)), batch, functional.nll_loss))
    assert not found(diagnose(skipping(nn.LogSoftmax(-1)), batch, functional.cross_entropy)), "harmless"


def test_a_sigmoid_before_a_loss_that_has_one_is_found() -> None:
    target = (vectors(32, 10, seed=7) > 0).float()
    loss = functional.binary_cross_entropy_with_logits
    assert found(diagnose(skipping(nn.Sigmoid()), (vectors(), target), loss)) == {"loss fits outputs"}
    assert not found(diagnose(skipping(), (vectors(), target), loss))
    plain = functional.binary_cross_entropy
    assert not found(diagnose(skipping(nn.Sigmoid()), (vectors(), target), plain))


def large_head() -> SkipNetwork:
    torch.manual_seed(0)
    model = SkipNetwork()
    with torch.no_grad():
        model.head.weight *= 100
    return model


def test_an_initial_loss_far_above_guessing_is_at_risk_and_the_head_is_the_cause() -> None:
    diagnosis = classified(large_head(), vectors())
    assert found(diagnosis) == {"initial loss"}
    one = finding(diagnosis, "initial loss")
    assert one.measured is not None
    assert one.measured.value > 20
    assert one.cause == "head"
    assert "head" in diagnosis.summary
    assert diagnosis.document()["initial_loss"]["guessing"] == pytest.approx(math.log(10))


def test_a_loss_that_brings_its_own_targets_is_compared_too() -> None:
    target = labels(32)
    diagnosis = diagnose(large_head(), vectors(), lambda output: functional.cross_entropy(output, target))
    assert found(diagnosis) == {"initial loss"}


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_the_logits_of_tokens_are_judged_whether_classes_are_first_or_last(scale: float) -> None:
    """Outputs of language models are (samples, tokens, classes), the loss flattens or transposes them."""
    torch.manual_seed(0)
    logits, target = scale * torch.randn(4, 6, 50), torch.randint(50, (4, 6))
    for loss in (
        lambda output, target: functional.cross_entropy(output.flatten(0, 1), target.flatten()),
        lambda output, target: functional.cross_entropy(output.transpose(1, 2), target),
    ):
        found = initial_loss(loss, logits, target, float(loss(logits, target)))
        assert (found.kind, found.guessing) == ("cross entropy", pytest.approx(math.log(50)))
        assert found.factor is not None
        assert (found.factor > 10) == (scale > 1)


def test_guessing_costs_what_closed_forms_say() -> None:
    target = labels(32)
    logits = vectors(32, 10)
    loss = initial_loss(functional.cross_entropy, logits, target, float(functional.cross_entropy(logits, target)))
    share = torch.bincount(target, minlength=10).double() / 32
    assert loss.kind == "cross entropy"
    assert loss.guessing == pytest.approx(math.log(10))
    assert loss.best_constant == pytest.approx(float(torch.distributions.Categorical(share).entropy()))
    best = share.log().clamp_min(-50).float().expand(32, -1)
    assert loss.best_constant == pytest.approx(float(functional.cross_entropy(best, target)), rel=1e-5)


def test_guessing_a_regression_costs_the_variance_of_its_targets() -> None:
    target, output = 3 + vectors(32, 5), vectors(32, 5, seed=1)
    loss = initial_loss(functional.mse_loss, output, target, float(functional.mse_loss(output, target)))
    assert loss.guessing == pytest.approx(float(target.var(0, correction=0).mean()), rel=1e-5)


def test_a_loss_that_fails_on_constants_leaves_a_reason() -> None:
    def picky(output: Tensor) -> Tensor:
        if not output.any():
            raise RuntimeError("no zeros, please")
        return output.square().mean()

    diagnosis = diagnose(skipping(), vectors(), picky)
    assert "RuntimeError" in finding(diagnosis, "initial loss").reason
    assert diagnosis.verdict is Verdict.HEALTHY


def test_a_loss_of_nan_is_sick() -> None:
    diagnosis = diagnose(skipping(), vectors(), lambda output: (output - output.detach().amax() - 1).sqrt().mean())
    assert diagnosis.verdict is Verdict.SICK
    assert "finite loss" in found(diagnosis)


def pixels() -> Tensor:
    return (vectors() * 40 + 128).clamp(0, 255)


def test_pixels_up_to_255_are_at_risk_and_the_cause_is_the_input() -> None:
    torch.manual_seed(0)
    diagnosis = classified(plain_network(), pixels())
    assert "input scale" in found(diagnosis)
    assert diagnosis.verdict is Verdict.AT_RISK
    assert finding(diagnosis, "input scale").cause == "input"
    assert any("Normalize the batch" in step for step in diagnosis.next_steps)


def test_a_network_that_normalizes_may_have_pixels() -> None:
    torch.manual_seed(0)
    diagnosis = classified(ScaledNetwork(scale=1.0), pixels())
    assert diagnosis.verdict is Verdict.HEALTHY
    assert noted(diagnosis, "a scale that normalization removes")


def test_a_bias_that_kills_a_relu_is_the_cause() -> None:
    torch.manual_seed(0)
    model = plain_network()
    nn.init.constant_(model[2].bias, -10.0)
    diagnosis = classified(model, vectors())
    dead = finding(diagnosis, "live layers")
    assert (dead.layer, dead.cause) == ("3", "2")
    assert "the cause is module 2, whose bias outweighs the product with its weight" in diagnosis.summary
    assert next(one for one in diagnosis.document()["findings"] if one["check"] == "live layers")["cause"] == "2"


def test_one_layer_of_a_large_gain_is_the_cause_of_an_explosion() -> None:
    torch.manual_seed(0)
    model = plain_network(depth=12)
    for layer in model[::2]:
        nn.init.orthogonal_(layer.weight, 2**0.5)
    with torch.no_grad():
        model[12].weight *= 1e6
    diagnosis = diagnose(model, vectors())
    exploding = finding(diagnosis, "largest gradient")
    assert exploding.severity is Verdict.SICK
    assert exploding.cause == "12"


def test_a_weight_of_rank_one_is_the_cause_of_a_collapse() -> None:
    torch.manual_seed(0)
    model = plain_network(depth=30)
    for layer in model[::2]:
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
    with torch.no_grad():
        model[20].weight.copy_(torch.outer(torch.ones(24), torch.randn(24)) / 24**0.5)
    diagnosis = diagnose(model, vectors(), batch_statistics=True)
    collapse = next(one for one in diagnosis.findings if one.check in ("sample rank", "sample angles") and one.cause)
    assert collapse.cause == "20"


def test_the_first_step_is_known_from_the_gradients_alone() -> None:
    """The first-order decrease is the derivative of the loss along the step."""
    torch.manual_seed(0)
    model, inputs, target = plain_network().double(), vectors().double(), labels(32)
    table = diagnose(model, (inputs, target), functional.cross_entropy).recording.parameter_table

    def loss() -> Tensor:
        return functional.cross_entropy(model(inputs), target)

    step = 1e-7
    for optimizer in ("sgd", "adamw"):
        model.zero_grad()
        before = loss()
        before.backward()
        with torch.no_grad():
            moves = [
                p.grad.sign() if optimizer == "adamw" else p.grad for p in model.parameters() if p.grad is not None
            ]
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter -= step * move
            measured = float(before - loss()) / step
            for parameter, move in zip(model.parameters(), moves, strict=True):
                parameter += step * move
        assert table.first_decrease(optimizer) == pytest.approx(measured, rel=1e-4)
    assert table.first_decrease("muon") is None
    assert all(0 < ratio < 10 for ratio in table.relative_gradients.values())
