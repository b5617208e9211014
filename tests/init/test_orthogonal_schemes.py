"""Haar, delta-orthogonal and equalized singular values: as operators on images, on one layer and on whole models."""

import pytest
import torch
from torch import nn

from orthoscope.init import initialize_
from orthoscope.layers import orthogonal_convolution
from orthoscope.linalg import haar

# Norms of float64 images of a few hundred pixels: the measured error is about 3e-15.
ROUNDING = 1e-12


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=seeded(9), dtype=torch.float64)


def growth_error(layer: nn.Module, inputs: torch.Tensor) -> float:
    """How far from 3 times an image's norm that of its output is, at most."""
    norms = layer(inputs).detach().flatten(1).norm(dim=1) / inputs.flatten(1).norm(dim=1)
    return float((norms - 3).abs().max())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv1d(5, 8, 3, padding=1, padding_mode="circular"), (2, 5, 11)),
        (nn.Conv2d(4, 4, 3, padding=1), (2, 4, 6, 7)),
        (nn.Conv2d(4, 6, (4, 3), padding="same", dilation=2, padding_mode="circular"), (2, 4, 8, 9)),
        (nn.Conv2d(4, 10, 3, padding=1, groups=2), (2, 4, 6, 7)),
        (nn.Conv2d(2, 8, 4, stride=2, padding=1, padding_mode="circular"), (2, 2, 8, 6)),
        (nn.Conv2d(2, 9, 2, stride=2), (2, 2, 8, 6)),
        (nn.Conv3d(2, 3, 3, padding=1), (2, 2, 4, 5, 3)),
        (nn.ConvTranspose2d(4, 6, 3, padding=1), (2, 4, 6, 7)),
        (nn.ConvTranspose2d(8, 4, 2, stride=2, groups=2), (2, 8, 3, 4)),
        (nn.Linear(5, 9), (2, 3, 5)),
    ],
    ids=repr,
)
def test_a_delta_orthogonal_layer_that_does_not_shrink_keeps_the_norm_of_every_image(
    layer: nn.Module, shape: tuple[int, ...]
) -> None:
    initialize_(layer.double(), "delta-orthogonal", gain=3.0, generator=seeded(0))
    inputs = images(*shape)
    assert growth_error(layer, inputs) < ROUNDING
    initialize_(layer, "orthogonal", gain=3.0, generator=seeded(0))
    if not isinstance(layer, nn.Linear) and layer.kernel_size[0] > layer.stride[0]:
        assert growth_error(layer, inputs) > 1e-2, "a kernel that is orthogonal as a matrix does not"


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(7, 3, 3, padding=1), (2, 7, 6, 5)),
        (nn.Conv2d(4, 6, 3, stride=2, padding=1, padding_mode="circular"), (2, 4, 6, 8)),
        (nn.ConvTranspose2d(6, 4, 3, padding=1), (2, 6, 6, 5)),
    ],
    ids=repr,
)
def test_the_adjoint_of_a_delta_orthogonal_layer_with_fewer_outputs_keeps_the_norm(
    layer: nn.Module, shape: tuple[int, ...]
) -> None:
    """More inputs than outputs, those of a stride counted: $KK^\top = I$ instead of $K^\top K = I$."""
    initialize_(layer.double(), "delta-orthogonal", generator=seeded(0))
    inputs = images(*shape).requires_grad_()
    outputs = layer(inputs)
    assert bool((outputs.flatten(1).norm(dim=1) < inputs.flatten(1).norm(dim=1)).all())
    cotangents = images(*outputs.shape)
    (back,) = torch.autograd.grad(outputs, inputs, cotangents)
    assert float((back.flatten(1).norm(dim=1) / cotangents.flatten(1).norm(dim=1) - 1).abs().max()) < ROUNDING


def test_only_the_middle_tap_is_filled_and_it_is_the_one_of_orthogonal_convolution() -> None:
    layer = nn.Conv2d(4, 5, (3, 4), bias=False)
    initialize_(layer, "delta-orthogonal", generator=seeded(0))
    taps = layer.weight.detach().norm(dim=(0, 1)).nonzero().tolist()
    assert taps == [[1, 1]]
    expected = haar(5, 4, generator=seeded(0))
    torch.testing.assert_close(layer.weight.detach()[:, :, 1, 1], expected)
    other = orthogonal_convolution(nn.Conv2d(4, 5, (3, 4), bias=False), "delta", start="haar")
    assert other.weight.detach().norm(dim=(0, 1)).nonzero().tolist() == taps
    initialize_(other, "delta-orthogonal", generator=seeded(0))
    torch.testing.assert_close(other.weight.detach(), layer.weight.detach())


@pytest.mark.parametrize("scheme", ["orthogonal", "delta-orthogonal"])
def test_a_scheme_fills_one_layer_or_a_whole_model_and_leaves_embeddings_and_norms(
    scheme: str,
) -> None:
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(11, 6),
            "norm": nn.LayerNorm(6),
            "linear": nn.Linear(6, 4),
            "stack": nn.Sequential(nn.Conv1d(4, 4, 3), nn.ReLU(), nn.ConvTranspose1d(4, 2, 3)),
        }
    )
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert initialize_(model, scheme, generator=seeded(0)) == ["linear", "stack.0", "stack.2"]
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {f"{name}.{part}" for name in ("linear", "stack.0", "stack.2") for part in ("weight", "bias")}
    layer = nn.Linear(6, 4)
    assert initialize_(layer, scheme, generator=seeded(0)) == [""]
    assert torch.equal(layer.weight, model["linear"].weight)
    assert initialize_(nn.Embedding(3, 2), scheme) == []
