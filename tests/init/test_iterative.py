"""Singular values that become equal layer by layer, as theory says, through the real layers; and what is refused."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orthoscope.init import iterative_
from orthoscope.layers import orthogonal
from orthoscope.metrics import orthogonality_gap
from orthoscope.models import MLP
from orthoscope.theory.chain.spectrum import iterative_gap


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def patches(images: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Every patch a row, cut out one by one."""
    padded = nn.functional.pad(images, (padding,) * 4)
    height, width = (1 + (size - kernel) // stride for size in padded.shape[2:])
    return torch.stack(
        [
            image[:, row * stride : row * stride + kernel, column * stride : column * stride + kernel].flatten()
            for image in padded
            for row in range(height)
            for column in range(width)
        ]
    )


def output_rows(layer: nn.Conv2d, images: Tensor) -> Tensor:
    return layer(images).detach().permute(0, 2, 3, 1).flatten(end_dim=2)


@pytest.mark.parametrize("frame", ["nearest", "random"])
def test_linear_layers_follow_the_roots_of_singular_values_that_theory_takes(frame: str) -> None:
    model = MLP(depth=6, width=20, in_features=30, activation="identity", out_features=None, generator=seeded(0))
    model.double()
    batch = torch.randn(60, 30, generator=seeded(1), dtype=torch.float64)
    iterative_(model, batch, output_rms=None, frame=frame, keep=("layers.0.linear",), generator=seeded(2))
    hidden = model.layers[0](batch).detach()
    start = torch.linalg.svdvals(hidden)
    gaps = [float(orthogonality_gap(hidden))]
    for step, layer in enumerate(list(model.layers)[1:], start=1):
        hidden = layer(hidden).detach()
        gaps.append(float(orthogonality_gap(hidden)))
        assert float(hidden.norm()) == pytest.approx(1)
        # Measured error 2e-15.
        assert gaps[-1] == pytest.approx(float(iterative_gap(start, step, samples=60)), abs=1e-12)
    assert gaps[0] - gaps[-1] > 0.01, "the test must see the gap fall"


def test_the_slice_of_the_paper_can_make_samples_less_orthogonal_and_the_frame_nearest_to_it_cannot() -> None:
    batch = torch.randn(60, 20, generator=seeded(0), dtype=torch.float64)
    after = {}
    for frame in ("slice", "nearest"):
        layer = nn.Linear(20, 20).double()
        iterative_(layer, batch, frame=frame, keep=(), generator=seeded(1))
        after[frame] = float(orthogonality_gap(layer(batch).detach()))
    assert after["nearest"] < float(orthogonality_gap(batch)) < after["slice"]


@pytest.mark.slow
def test_relu_networks_end_orthogonal_and_gradients_grow_with_a_random_frame_alone() -> None:
    r"""By $\frac12\log\frac\pi{\pi-1} = 0.191$ a layer, the rate of batch norm."""
    batch = torch.randn(600, 40, generator=seeded(0)) + 1
    gaps, slopes = {}, {}
    for start in ("he", "nearest", "random"):
        model = MLP(depth=24, width=40, generator=seeded(1))
        if start != "he":
            iterative_(model, batch, frame=start, generator=seeded(2))
        gaps[start] = float(orthogonality_gap(model.layers(batch[:20]).detach()))
        nn.functional.cross_entropy(model(batch), torch.arange(600) % 10).backward()
        norms = [float(block.linear.weight.grad.norm().log()) for block in list(model.layers)[2:-2]]
        slopes[start] = (norms[0] - norms[-1]) / (len(norms) - 1)
    # Measured: 0.94, 0.20 and 0.47.
    assert gaps["nearest"] < gaps["random"] < 0.6 < 0.9 < gaps["he"]
    assert slopes["random"] == pytest.approx(0.191, abs=0.04)
    assert slopes["nearest"] < 0.1


@pytest.mark.parametrize(("out", "kernel", "stride", "padding"), [(5, 3, 1, 1), (7, 3, 2, 0), (30, 2, 1, 1)])
def test_a_convolution_takes_the_root_of_the_strongest_singular_values_of_its_patches(
    out: int, kernel: int, stride: int, padding: int
) -> None:
    layer = nn.Conv2d(3, out, kernel, stride, padding).double()
    images = torch.randn(6, 3, 7, 8, generator=seeded(0), dtype=torch.float64)
    conditions = iterative_(layer, images, output_rms=None, keep=(), generator=seeded(1))
    before = torch.linalg.svdvals(patches(images, kernel, stride, padding))[:out]
    after = torch.linalg.svdvals(output_rows(layer, images))
    torch.testing.assert_close(after[: len(before)], (before / before.sum()).sqrt())
    assert float(after[len(before) :].sum()) < 1e-12
    assert conditions[""] == pytest.approx(float((before[0] / before[-1]).sqrt()))
    assert bool((layer.bias == 0).all())


def test_power_one_makes_singular_values_equal_in_every_group_and_the_mean_square_as_asked() -> None:
    layer = nn.Conv2d(4, 6, 3, groups=2, padding="same", padding_mode="circular").double()
    images = torch.randn(5, 4, 6, 6, generator=seeded(0), dtype=torch.float64)
    iterative_(layer, images, power=1.0, output_rms=2.0, keep=(), generator=seeded(1))
    rows = output_rows(layer, images)
    for group in (rows[:, :3], rows[:, 3:]):
        values = torch.linalg.svdvals(group)
        torch.testing.assert_close(values, values[0].expand(3))
    assert float(rows.square().mean().sqrt()) == pytest.approx(2)


def test_sequences_and_tokens_are_rows_too() -> None:
    model = nn.Sequential(nn.Conv1d(3, 4, 3, padding=1, dilation=2), nn.Linear(10, 8)).double()
    iterative_(
        model, torch.randn(9, 3, 12, generator=seeded(0), dtype=torch.float64), 1.0, keep=(), generator=seeded(1)
    )
    outputs = model(torch.randn(9, 3, 12, generator=seeded(0), dtype=torch.float64)).detach().flatten(end_dim=1)
    values = torch.linalg.svdvals(outputs)
    torch.testing.assert_close(values, values[0].expand(8))


def test_directions_that_no_sample_reaches_get_no_weight() -> None:
    layer = nn.Linear(10, 12)
    batch = torch.randn(40, 10, generator=seeded(0))
    batch[:, 4:] = 0  # as behind dead units
    iterative_(layer, batch, keep=(), generator=seeded(1))
    weight = layer.weight.detach()
    assert int(torch.linalg.matrix_rank(weight)) == 4
    assert float(weight[:, 4:].abs().max()) < 1e-5 * float(weight.abs().max())


def test_first_and_last_layer_flags_buffers_hooks_and_the_global_generator_are_as_before() -> None:
    hidden = (nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 8))
    model = nn.Sequential(*hidden, nn.ReLU(), nn.Linear(8, 3)).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    conditions = iterative_(model, torch.randn(32, 5, generator=seeded(0)), generator=seeded(1))
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert list(conditions) == ["3"]
    assert changed == {"3.weight", "3.bias"}
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training and not module._forward_pre_hooks for module in model.modules())
    iterative_(model, torch.randn(32, 5, generator=seeded(0)))
    assert torch.equal(torch.get_rng_state(), state), "nor is it moved where no generator is given"


def test_the_same_generator_gives_the_same_weights() -> None:
    batch = torch.randn(30, 9, generator=seeded(0))
    models = [MLP(depth=4, width=9, generator=seeded(1)) for _ in range(3)]
    for model, seed in zip(models, (5, 5, 6), strict=True):
        iterative_(model, batch, generator=seeded(seed))
    first, again, other = (model.layers[2].linear.weight for model in models)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    ("model", "batch", "keep", "message"),
    [
        (MLP(depth=3, width=4), torch.zeros(8, 4), (), r"input of layer 'layers.0.linear' is zero"),
        (
            nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Linear(4, 2)),
            torch.zeros(8, 4),
            None,
            "the batch is one sample repeated",
        ),
        (
            MLP(depth=3, width=4),
            torch.full((8, 4), float("nan")),
            (),
            r"input of layer 'layers.0.linear' is not finite",
        ),
        (MLP(depth=3, width=4), torch.ones(8, 4), ("layers.7.linear",), r"no weight layer 'layers.7.linear' to keep"),
        (MLP(depth=1, width=4), torch.ones(8, 4), None, "no weight layer is left to set"),
        (nn.ConvTranspose2d(2, 2, 3), torch.ones(8, 2, 4, 4), (), "is a ConvTranspose2d"),
        (orthogonal(nn.Linear(4, 4), start="nearest"), torch.ones(8, 4), (), "refuses the computed weight"),
    ],
)
def test_refusals_name_the_layer_and_change_nothing(
    model: nn.Module, batch: Tensor, keep: tuple[str, ...] | None, message: str
) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        iterative_(model, batch, keep=keep)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.slow
def test_as_many_samples_as_units_from_the_front_leave_a_relu_nothing_to_remove() -> None:
    batch = torch.randn(100, 16, generator=seeded(0))
    one, other, larger = (MLP(depth=8, width=16, generator=seeded(1)) for _ in range(3))
    iterative_(one, batch, samples=16, generator=seeded(2))
    iterative_(other, batch[:16], generator=seeded(2))
    iterative_(larger, batch, generator=seeded(2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))

    @torch.no_grad()
    def kept(model: MLP) -> float:
        """Share of the mean square that leaves the ReLU of the last hidden layer, of the first samples."""
        before = model.layers[:-1](batch[:16]) @ model.layers[-1].linear.weight.mT
        return float(before.relu().square().sum() / before.square().sum())

    assert 1 - kept(one) < 0.3 * (1 - kept(larger))


@pytest.mark.parametrize(
    ("samples", "batch", "message"),
    [
        (0, torch.ones(8, 4), "samples is 0, but must be a whole number"),
        (-5, torch.ones(8, 4), "samples is -5"),
    ],
)
def test_a_bad_number_of_samples_is_refused(samples: int, batch: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        iterative_(MLP(depth=3, width=4), batch, samples=samples)


def test_rank_one_input_is_accepted_by_a_layer_of_one_unit() -> None:
    """A code of one unit, and a dead channel in a group of two."""
    code = nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in ((16, 16), (16, 1), (1, 16), (16, 16), (16, 2))))
    assert list(iterative_(code, torch.randn(32, 16, generator=seeded(0)))) == ["1", "2", "3"]
    grouped = nn.Sequential(nn.Conv2d(2, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1, groups=2), nn.Conv2d(4, 2, 1))
    with torch.no_grad():
        grouped[0].weight[1], grouped[0].bias[1] = 0, -1
    assert list(iterative_(grouped, torch.randn(8, 2, 3, 3, generator=seeded(0)))) == ["2"]
