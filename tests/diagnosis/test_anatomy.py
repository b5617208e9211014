"""What a diagnosis remembers of the network: activations by what they do, and signs of training."""

import torch
from torch import nn

import orthoscope
from orthoscope.activations import BlendedActivation, CenteredActivation, ShapedActivation, activation_modules
from orthoscope.diagnosis.inspection import anatomy, signs_of_training
from orthoscope.models import MLP


class Counting(nn.Module):
    """Somebody's own activation, which remembers how often it ran."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return inputs.clamp(-1, 1)


def test_activations_are_recognized_by_their_function_without_running_the_model() -> None:
    own = Counting()
    model = nn.Sequential(
        nn.Linear(4, 4),
        nn.ReLU(inplace=True),
        nn.Dropout(0.0),
        nn.Identity(),
        nn.Softmax(-1),
        nn.Flatten(),
        nn.PReLU(),
        own,
        ShapedActivation(nn.Tanh(), 0.5),
        nn.Sequential(BlendedActivation(nn.SELU(), 0.5)),
    )
    assert [name for name, _ in activation_modules(model)] == ["1", "7", "8", "9.0"]
    assert own.calls == 0


def test_signs_of_training_are_seen_and_a_fresh_network_shows_none() -> None:
    fresh = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.LayerNorm(4))
    assert signs_of_training(fresh) == ""
    fresh(torch.randn(8, 4))
    assert "has seen 1 batches" in signs_of_training(fresh)
    scaled = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))
    nn.init.normal_(scaled[1].weight)
    assert "different scales" in signs_of_training(scaled)
    pushed = nn.Sequential(nn.Linear(4, 4))
    pushed(torch.randn(2, 4)).sum().backward()
    assert "holds a gradient" in signs_of_training(pushed)
    remembers = MLP(depth=2, width=4)
    assert signs_of_training(remembers) == ""
    with torch.no_grad():
        remembers.head.weight += 1  # type: ignore[union-attr, operator]
    assert "changed since initialization" in signs_of_training(remembers)


def test_a_diagnosis_carries_the_anatomy_of_its_network() -> None:
    model = MLP(depth=3, width=8, residual=True, norm="layer", activation="sin")
    found = orthoscope.diagnose(model, torch.randn(8, 8)).anatomy
    assert found == anatomy(model) or found.activations == anatomy(model).activations
    assert (found.residual_blocks, found.norms, found.convolutions) == (3, 3, 0)
    assert set(found.activations.values()) == set(found.kinds) == {"Elementwise(sin)"}
    assert len(found.weights) == 4


def test_a_centered_activation_passes_through_0_with_slope_1() -> None:
    points = torch.linspace(-3, 3, 13, dtype=torch.float64)
    centered = CenteredActivation(nn.Sigmoid())
    assert torch.allclose(centered(points), 2 * torch.tanh(points / 2))
    near = torch.tensor([1e-6], dtype=torch.float64)
    for inner in (nn.GELU(), nn.Softplus(), nn.SiLU(), nn.Mish()):
        moved = CenteredActivation(inner)
        assert float(moved(torch.zeros(1, dtype=torch.float64))) == 0
        assert abs(float(moved(near)) / 1e-6 - 1) < 1e-5


def test_a_blended_relu_is_the_leaky_one_also_in_place() -> None:
    points = torch.linspace(-3, 3, 13)
    for inplace in (False, True):
        assert torch.allclose(
            BlendedActivation(nn.ReLU(inplace=inplace), 0.3)(points.clone()), nn.functional.leaky_relu(points, 0.7)
        )


def test_branches_are_possible_wherever_code_that_is_not_known_may_add() -> None:
    class Own(nn.Sequential):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return inputs + super().forward(inputs)

    layers = nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)
    assert not anatomy(nn.Sequential(*layers, nn.Sequential(nn.BatchNorm1d(4)))).may_branch
    assert not anatomy(MLP(depth=3, width=4)).may_branch
    assert anatomy(MLP(depth=3, width=4, residual=True)).may_branch
    assert anatomy(nn.Sequential(*layers, Own(nn.Linear(4, 4)))).may_branch
    assert anatomy(nn.Sequential(*layers, Counting())).may_branch, "a leaf of somebody else's"
    assert anatomy(nn.TransformerEncoderLayer(4, 2)).may_branch
    hooked = nn.Sequential(*layers)
    hooked.register_forward_hook(lambda module, inputs, output: inputs[0] + output)
    assert anatomy(hooked).may_branch
