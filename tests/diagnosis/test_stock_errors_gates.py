"""Zero-initialized gates that open in the first step are no symptom; gates that cannot open are dead."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from diagnosis.stock_networks import (
    AdaptiveNetwork,
    DiffusionNetwork,
    ResidualNetwork,
    ScaledNetwork,
    SkipNetwork,
    classified,
    finding,
    found,
    images,
    noted,
    plain_network,
    seeded,
    vectors,
)
from orthoscope import State, Verdict, diagnose


def test_zero_last_scales_of_residual_blocks_are_no_symptom() -> None:
    torch.manual_seed(0)
    diagnosis = classified(ResidualNetwork(), images())
    assert diagnosis.verdict is Verdict.HEALTHY
    assert noted(diagnosis, "gradients behind them start after the first step")


def test_layer_scale_of_a_millionth_or_of_zero_is_no_symptom() -> None:
    for scale in (1e-6, 0.0):
        torch.manual_seed(0)
        diagnosis = classified(ScaledNetwork(scale=scale), vectors())
        assert diagnosis.verdict is Verdict.HEALTHY, scale
        assert "blocks.2.inner" in diagnosis.recording.behind_gates


def test_an_ordinary_scale_holds_nothing_back() -> None:
    torch.manual_seed(0)
    diagnosis = classified(ScaledNetwork(scale=1.0), vectors())
    assert not diagnosis.recording.behind_gates
    assert finding(diagnosis, "gradient growth").state is State.CLEAN, "the branches are in the profile"


def test_zero_output_and_time_embedding_of_a_diffusion_model_are_no_symptom() -> None:
    torch.manual_seed(0)
    noise = vectors(seed=5)
    diagnosis = diagnose(
        DiffusionNetwork(),
        (vectors(), torch.rand(32, generator=seeded(3))),
        lambda output: functional.mse_loss(output, noise),
    )
    assert diagnosis.verdict is Verdict.HEALTHY
    assert {"time.0", "time.2"} <= diagnosis.recording.behind_gates


def adaptive() -> tuple[AdaptiveNetwork, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return AdaptiveNetwork(), (vectors(), torch.randn(32, 8, generator=seeded(4)))


def test_adaptive_normalization_that_starts_at_zero_is_no_symptom() -> None:
    model, batch = adaptive()
    diagnosis = diagnose(model, batch)
    assert diagnosis.verdict is Verdict.HEALTHY
    assert "blocks.0.inner" in diagnosis.recording.behind_gates


def test_a_frozen_zero_output_is_dead() -> None:
    model, batch = adaptive()
    model.head.requires_grad_(False)
    diagnosis = diagnose(model, batch)
    assert diagnosis.verdict is Verdict.SICK
    assert finding(diagnosis, "live layers").layer == "head"


def test_a_zero_layer_in_the_trunk_is_judged_after_its_first_step() -> None:
    def network() -> nn.Sequential:
        torch.manual_seed(0)
        model = nn.Sequential(*(m for _ in range(3) for m in (nn.Linear(24, 24), nn.Tanh())), nn.Linear(24, 10))
        nn.init.zeros_(model[2].weight)
        return model

    diagnosis = classified(network(), vectors())
    assert diagnosis.verdict is Verdict.HEALTHY
    assert diagnosis.recording.closed_from == 2
    assert noted(diagnosis, "measured after one step of the zero-initialized gates")
    frozen = network()
    frozen[2].requires_grad_(False)
    sick = classified(frozen, vectors())
    assert sick.verdict is Verdict.SICK
    assert sick.recording.closed_from is None, "a gate that is frozen takes no step"


def test_a_zero_layer_before_a_relu_never_opens() -> None:
    torch.manual_seed(0)
    model = plain_network()
    nn.init.zeros_(model[2].weight)
    nn.init.zeros_(model[2].bias)
    diagnosis = classified(model, vectors())
    assert diagnosis.verdict is Verdict.SICK
    assert finding(diagnosis, "live layers").cause == "2"


def test_two_gates_in_series_never_open() -> None:
    torch.manual_seed(0)
    model = ScaledNetwork(scale=0.0, blocks=1)
    nn.init.zeros_(model.blocks[0].outer.weight)
    nn.init.zeros_(model.blocks[0].outer.bias)
    table = classified(model, vectors()).recording.parameter_table
    assert not table.live_gates, "neither gets a gradient while the other is zero"


def test_the_step_of_the_gates_is_taken_back_bit_by_bit() -> None:
    torch.manual_seed(0)
    for model, inputs in ((ResidualNetwork(), images()), (ScaledNetwork(), vectors())):
        before = copy.deepcopy(model.state_dict())
        versions = [parameter._version for parameter in model.parameters()]
        assert classified(model, inputs).recording.behind_gates
        assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
        assert [parameter._version for parameter in model.parameters()] == versions
        assert all(parameter.grad is None for parameter in model.parameters())


def test_a_container_that_reshapes_a_zero_is_not_dead() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.norm = nn.Linear(24, 24), nn.BatchNorm1d(24)
            nn.init.zeros_(self.norm.weight)

        def forward(self, hidden: Tensor) -> Tensor:
            return self.norm(self.inner(hidden)).reshape(hidden.shape)

    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem, self.flat, self.head = nn.Linear(24, 24), Flat(), nn.Linear(24, 10)

        def forward(self, inputs: Tensor) -> Tensor:
            hidden = self.stem(inputs)
            return self.head(hidden + self.flat(hidden))

    torch.manual_seed(0)
    diagnosis = classified(Skip(), vectors())
    assert diagnosis.verdict is Verdict.HEALTHY
    assert not noted(diagnosis, "dead branches")
    assert noted(diagnosis, "zero-initialized branches")


def test_what_a_model_keeps_of_one_pass_does_not_reach_the_next() -> None:
    """Attention biases are kept between passes in eval mode, with the autograd graph of the pass that made them."""

    class Keeping(ScaledNetwork):
        def __init__(self) -> None:
            super().__init__()
            self.bias, self.kept = nn.Parameter(torch.ones(24)), dict[str, Tensor]()

        def forward(self, inputs: Tensor) -> Tensor:
            if "bias" not in self.kept:
                self.kept["bias"] = self.bias * 0.1
            return super().forward(inputs + self.kept["bias"])

    torch.manual_seed(0)
    model = Keeping()
    diagnosis = classified(model, vectors())
    assert diagnosis.recording.behind_gates
    assert not noted(diagnosis, "not looked at a second time")
    assert not model.kept


def test_a_second_pass_that_fails_leaves_the_first_and_a_note() -> None:
    calls: list[int] = []  # outside of the module, whose attributes are restored

    class Once(ScaledNetwork):
        def forward(self, inputs: Tensor) -> Tensor:
            calls.append(1)
            if len(calls) > 1:
                raise RuntimeError("only once")
            return super().forward(inputs)

    torch.manual_seed(0)
    diagnosis = classified(Once(), vectors())
    assert any("only once" in note for note in diagnosis.recording.notes)
    assert diagnosis.verdict is not Verdict.UNKNOWN


def test_a_dead_branch_is_named_and_a_network_of_dead_branches_is_at_risk() -> None:
    torch.manual_seed(0)
    one, most = SkipNetwork(), SkipNetwork()
    nn.init.constant_(one.blocks[2].inner.bias, -50.0)
    for block in most.blocks[1:]:
        nn.init.constant_(block.inner.bias, -50.0)
    diagnosis = classified(one, vectors())
    assert diagnosis.verdict is Verdict.HEALTHY
    assert noted(diagnosis, "blocks.2.inner")
    many = classified(most, vectors())
    assert many.verdict is Verdict.AT_RISK
    assert found(many) == {"live branches"}


def test_a_frozen_zero_layer_in_a_branch_is_named() -> None:
    torch.manual_seed(0)
    model = SkipNetwork()
    nn.init.zeros_(model.blocks[2].outer.weight)
    nn.init.zeros_(model.blocks[2].outer.bias)
    model.blocks[2].outer.requires_grad_(False)
    assert noted(classified(model, vectors()), "blocks.2.outer")


def test_a_dead_layer_without_a_skip_is_sick() -> None:
    torch.manual_seed(0)
    model = plain_network()
    nn.init.constant_(model[2].bias, -50.0)
    diagnosis = classified(model, vectors())
    assert diagnosis.verdict is Verdict.SICK
    assert finding(diagnosis, "live layers").layer == "3"
