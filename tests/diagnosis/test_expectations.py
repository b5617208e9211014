"""Theory beside the measurement: made from arguments and batch alone, silent where it has nothing to say."""

import copy
import math
import pickle
from statistics import mean, stdev

import pytest
import torch
from torch import Tensor, nn

from orthoscope import Diagnosis, diagnose
from orthoscope.models import MLP, ConvNet


def batch(samples: int = 48, units: int = 200, seed: int = 0) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(seed))


def mlp(**options: object) -> MLP:
    given = {"width": 200, "depth": 8, "generator": torch.Generator().manual_seed(1), **options}
    return MLP(**given)


COVERED = [
    {},
    {"activation": "tanh", "init": "xavier", "bias": True, "bias_std": 0.2},
    {"activation": "tanh", "init": "orthogonal", "gain": 0.3},
    {"activation": "gelu", "norm": "layer", "init": "gaussian"},
    {"activation": "gelu", "norm": "layer", "order": "activation-norm", "init": "gaussian"},
    {"activation": "silu", "norm": "rms", "init": "gaussian"},
    {"norm": "batch"},
    {"norm": "layer", "residual": True, "residual_scale": 0.3},
    {"activation": nn.LeakyReLU(0.3)},
    {"activation": torch.tanh, "init": "torch", "bias": True},
    {"in_features": 300, "out_features": None, "activation": "tanh", "init": "gaussian"},
]


def close(expected: float, measured: list[float]) -> bool:
    """Within four standard errors of the mean, and 0.02 for what a width of 200 changes in the mean."""
    return abs(mean(measured) - expected) < 4 * stdev(measured) / len(measured) ** 0.5 + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("options", COVERED, ids=lambda options: "-".join(options) or "relu")
def test_every_fully_connected_network_is_measured_as_predicted(options: dict[str, object]) -> None:
    """On average over networks: the angles of one of finite width wander together."""
    inputs = batch(units=int(str(options.get("in_features", 200))))
    generators = [torch.Generator().manual_seed(seed) for seed in range(6)]
    diagnoses = [diagnose(mlp(**options, generator=generator), inputs) for generator in generators]
    expectation = diagnoses[0].expected
    assert expectation.reason == ""
    predicted = 0
    for rows in zip(*(diagnosis.layers for diagnosis in diagnoses), strict=True):
        expected = expectation.of(rows[0])
        # A head of ten units has angles of its own: only their spread is predictable.
        if expected is None or rows[0].name == "head":
            continue
        predicted += 1
        assert close(expected.overlap, [row.overlap for row in rows])
        assert close(expected.gap, [row.gap for row in rows])
        assert expected.rms == pytest.approx(mean(row.rms for row in rows), rel=0.15)
        assert expected.effective_rank == pytest.approx(mean(row.effective_rank for row in rows), rel=0.1)
    assert predicted >= 16, "linear layers and activations at least"
    assert diagnoses[0].expected_slope == pytest.approx(mean(d.slope for d in diagnoses), abs=0.05)


@pytest.mark.slow
def test_a_prediction_for_another_network_would_not_pass() -> None:
    relu, tanh = diagnose(mlp(), batch()), diagnose(mlp(activation="tanh", init="xavier"), batch())
    row = relu.layers[-2]
    expected = tanh.expected.of(row)
    assert expected is not None
    assert abs(expected.overlap - row.overlap) > 0.3


@pytest.mark.slow
def test_predictions_do_not_use_measurements_inside_the_network() -> None:
    """The weights of one seed and of another: the same batch, the same prediction."""
    first, second = (diagnose(mlp(generator=torch.Generator().manual_seed(seed)), batch()) for seed in (1, 2))
    assert dict(first.expected.signals) == dict(second.expected.signals)
    assert [row.overlap for row in first.layers] != [row.overlap for row in second.layers]


def reason_for(model: nn.Module, inputs: Tensor, **options: bool) -> str:
    diagnosis: Diagnosis = diagnose(model, inputs, **options)
    assert diagnosis.expected.of(diagnosis.layers[0]) is None
    assert math.isnan(diagnosis.expected_slope)
    assert diagnosis.expected.sources == ()
    return diagnosis.expected.reason


def test_other_networks_have_no_prediction() -> None:
    generator = torch.Generator().manual_seed(0)
    convnet = ConvNet(depth=3, channels=8, generator=generator)
    assert "not ConvNet" in reason_for(convnet, torch.randn(8, 3, 16, 16, generator=generator))
    assert "not Sequential" in reason_for(nn.Sequential(nn.Linear(200, 20), nn.ReLU()), batch())


def trained() -> MLP:
    model, inputs = mlp(), batch()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), torch.arange(len(inputs)) % 10).backward()
        optimizer.step()
    return model


@pytest.mark.slow
def test_trained_and_changed_weights_have_no_prediction() -> None:
    scaled, shifted, broken = mlp(), mlp(bias=True), mlp()
    with torch.no_grad():
        scaled.layers[3].linear.weight.mul_(1.01)
        shifted.head.bias.fill_(0.1)
        broken.layers[2].linear.weight.fill_(math.nan)
    for model in (trained(), scaled, shifted, broken):
        assert reason_for(model, batch()).endswith("the weights of this one have changed")


@pytest.mark.slow
def test_changed_modules_have_no_prediction() -> None:
    class Doubled(MLP):
        def forward(self, inputs: Tensor) -> Tensor:
            return 2 * super().forward(inputs)

    doubled = Doubled(width=200, depth=8, generator=torch.Generator().manual_seed(0))
    assert "not Doubled" in reason_for(doubled, batch())
    cut, dropped, tied, swapped, hooked = mlp(), mlp(), mlp(), mlp(), mlp()
    cut.layers = cut.layers[:3]
    dropped.layers.insert(2, nn.Dropout(0.5))
    tied.layers[3] = tied.layers[2]
    swapped.layers[1].activation = nn.Tanh()
    for model in (cut, dropped, swapped):
        assert reason_for(model, batch()) == "its modules were changed since it was built"
    assert reason_for(tied, batch()).endswith("the weights of this one have changed")
    hooked.layers[1].register_forward_hook(lambda module, inputs, output: 100 * output)
    assert "forward hook" in reason_for(hooked, batch())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_network_of_another_precision_is_still_predicted(dtype: torch.dtype) -> None:
    diagnosis = diagnose(mlp(depth=3).to(dtype), batch().to(dtype))
    assert diagnosis.expected.reason == ""


def test_a_network_is_copied_pickled_and_saved_with_its_origin() -> None:
    model = mlp(depth=3)
    for copy_of in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert diagnose(copy_of, batch()).expected.reason == ""
    assert not any("drawn" in key or "arguments" in key for key in model.state_dict())


@pytest.mark.slow
def test_what_theory_does_not_cover_is_said() -> None:
    assert "running" in reason_for(mlp(norm="batch"), batch(), batch_statistics=False)
    assert "after the activation" in reason_for(mlp(norm="batch", order="activation-norm"), batch())
    assert "no angles" in reason_for(mlp(), batch(samples=1))

    def scheme(layer: nn.Linear, gain: float, generator: torch.Generator | None) -> None:
        nn.init.eye_(layer.weight)

    assert "function" in reason_for(mlp(init=scheme), batch())


def test_a_batch_of_enormous_numbers_loses_no_diagnosis() -> None:
    assert reason_for(mlp(depth=3).double(), 1e200 * batch().double())


def test_gradients_of_rotations_with_batch_norm_are_not_predicted() -> None:
    diagnosis = diagnose(mlp(norm="batch", init="orthogonal"), batch())
    assert diagnosis.expected.reason == ""
    assert set(diagnosis.expected.log_gradients) <= {"head"}
    assert math.isnan(diagnosis.expected_slope)
