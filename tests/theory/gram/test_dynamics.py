"""Gram matrices of the mean field against closed forms, the Gaussian limit and sampling."""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.activations import nonlinearity
from orthoscope.theory.gram.dynamics import fixed_point_entries, gram_condition, gram_fixed_point, gram_trajectory

EXACT = 1e-12


def projection(batch: int) -> Tensor:
    return torch.eye(batch, dtype=torch.float64) - 1 / batch


def arc_cosine(overlap: float) -> float:
    r"""$E\,\mathrm{relu}(u)\,\mathrm{relu}(v)$ for standard Gaussians of this overlap."""
    return (math.sqrt(1 - overlap**2) + (math.pi - math.acos(overlap)) * overlap) / (2 * math.pi)


def z_score(samples: Tensor, expected: float) -> float:
    return abs(float(samples.mean()) - expected) / (float(samples.std()) / math.sqrt(len(samples)))


@pytest.mark.parametrize("batch", [2, 3, 4, 8, 64, 1000])
def test_linear_networks_end_at_a_projection_if_centered_and_at_the_identity_if_not(batch: int) -> None:
    expected = batch / (batch - 1) * projection(batch)
    assert torch.allclose(gram_fixed_point("identity", batch), expected, atol=EXACT)
    assert torch.equal(gram_fixed_point("linear", batch, centered=False), torch.eye(batch, dtype=torch.float64))
    assert gram_condition("identity", batch) == math.inf
    assert gram_condition("identity", batch, centered=False) == 1


@pytest.mark.parametrize("batch", [2, 3, 4, 5, 8, 100, 100_000])
def test_relu_keeps_the_arc_cosine_kernel_at_every_batch_size(batch: int) -> None:
    r"""ReLU is homogeneous, so the sphere and the Gaussian differ by nothing: off the diagonal at $\rho = -1/(n-1)$."""
    diagonal, off = fixed_point_entries(nonlinearity("relu"), batch, centered=True)
    assert diagonal == pytest.approx(0.5, abs=EXACT)
    assert off == pytest.approx(arc_cosine(-1 / (batch - 1)), abs=EXACT)


@pytest.mark.parametrize(
    ("activation", "scale", "kernel_at_zero"),
    [("tanh", 0.62793, 0.0), ("sigmoid", 0.54164, 0.852140), ("gelu", 0.65209, 0.187144), ("silu", 0.59647, 0.119998)],
)
def test_large_batches_approach_the_gaussian_kernel(activation: str, scale: float, kernel_at_zero: float) -> None:
    """√Eφ² and κ(0) of the mean field without batch normalization, to the five digits they are known to."""

    def off_by(batch: int) -> float:
        diagonal, off = fixed_point_entries(nonlinearity(activation), batch, centered=True)
        return max(abs(diagonal - scale**2), abs(off - kernel_at_zero * scale**2))

    assert off_by(100_000) < 3e-5
    assert off_by(8) > 5e-3


def sampled_layer(activation: str, batch: int, overlap: float, centered: bool, generator: torch.Generator) -> Tensor:
    """Outputs of 60000 units on samples of unit length with this overlap."""
    normal = torch.randn(60_000, batch + 1, generator=generator, dtype=torch.float64)
    hidden = math.sqrt(overlap) * normal[:, :1] + math.sqrt(1 - overlap) * normal[:, 1:]
    hidden = hidden - hidden.mean(-1, keepdim=True) if centered else hidden
    return nonlinearity(activation)(hidden / hidden.square().mean(-1, keepdim=True).sqrt())


@pytest.mark.slow
@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("activation", ["relu", "tanh", "hardtanh", "exp"])
@pytest.mark.parametrize("batch", [2, 3, 6])
def test_one_layer_agrees_with_sampling(
    activation: str, batch: int, centered: bool, generator: torch.Generator
) -> None:
    overlap = 0.4
    outputs = sampled_layer(activation, batch, overlap, centered, generator)
    after = gram_trajectory(activation, batch, overlap=overlap, depth=1, centered=centered)[1]
    if float(outputs[:, 0].square().std()) > EXACT:
        assert z_score(outputs[:, 0].square(), float(after[0, 0])) < 4
    products = outputs[:, 0] * outputs[:, 1]
    if batch == 2 and centered:
        assert float(products.mean()) == pytest.approx(float(after[0, 1]), abs=EXACT)
        return
    assert z_score(products, float(after[0, 1])) < 4
    other = gram_trajectory(activation, batch, overlap=overlap, depth=1, centered=not centered)[1]
    assert z_score(products, float(other[0, 1])) > 10, "the test must be able to tell centering"


@pytest.mark.parametrize("overlap", [-0.1, 0.0, 0.9, 0.999999])
def test_centering_reaches_the_fixed_point_in_one_layer(overlap: float) -> None:
    path = gram_trajectory("tanh", 6, overlap=overlap, depth=3)
    assert path.shape == (4, 6, 6)
    assert float(path[0, 0, 1]) == overlap
    for layer in path[1:]:
        assert torch.equal(layer, gram_fixed_point("tanh", 6))


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu", "exp"])
def test_without_centering_depth_leads_to_the_fixed_point(activation: str) -> None:
    fixed_point = gram_fixed_point(activation, 3, centered=False)
    path = gram_trajectory(activation, 3, overlap=0.7, depth=60, centered=False)
    distances = (path - fixed_point).flatten(1).norm(dim=1)
    assert (distances[2:] < distances[1:-1] + EXACT).all()
    assert float(distances[-1]) < 1e-6 < 0.1 < float(distances[0])
    overlap = float(fixed_point[0, 1] / fixed_point[0, 0])
    stays = gram_trajectory(activation, 3, overlap=overlap, depth=1, centered=False)[1]
    assert torch.allclose(stays, fixed_point, atol=1e-9)


@pytest.mark.slow
def test_relu_without_centering_keeps_overlaps_below_one() -> None:
    """Without normalization over the batch ReLU drives all overlaps to 1; here they stay near one half."""
    for batch in (2, 3, 8):
        fixed_point = gram_fixed_point("relu", batch, centered=False)
        assert 0.44 < float(fixed_point[0, 1] / fixed_point[0, 0]) < 0.52


@pytest.mark.parametrize("centered", [True, False])
def test_condition_is_that_of_the_matrix(centered: bool) -> None:
    for activation in ("relu", "gelu", "sigmoid") if centered else ("relu", "gelu"):
        eigenvalues = torch.linalg.eigvalsh(gram_fixed_point(activation, 3, centered=centered))
        found = gram_condition(activation, 3, centered=centered)
        assert found == pytest.approx(float(eigenvalues[-1] / eigenvalues[0]), rel=1e-9)


def test_gain_shapes_the_activation() -> None:
    assert torch.allclose(gram_fixed_point("relu", 5, gain=3.0), gram_fixed_point("relu", 5), atol=EXACT)
    nearly_linear = gram_fixed_point("tanh", 5, gain=1e-4)
    assert torch.allclose(nearly_linear, gram_fixed_point("identity", 5), atol=1e-7)
    assert not torch.allclose(gram_fixed_point("tanh", 5), gram_fixed_point("identity", 5), atol=1e-2)


def test_mistakes_get_one_clear_sentence() -> None:
    with pytest.raises(ValueError, match="batch is 1, but this quantity needs at least 2 samples"):
        gram_fixed_point("relu", 1)
    with pytest.raises(
        ValueError, match=r"overlap is 1\.0, but 4 samples can have one overlap between -1/3 and 1 only"
    ):
        gram_trajectory("relu", 4, overlap=1.0)
    with pytest.raises(ValueError, match=r"overlap is -0\.5"):
        gram_trajectory("relu", 4, overlap=-0.5)
    with pytest.raises(ValueError, match="depth is -1, but must be at least 0"):
        gram_trajectory("relu", 4, depth=-1)
    with pytest.raises(ValueError, match="batch is 33"):
        gram_fixed_point("relu", 33, centered=False)
    with pytest.raises(ValueError, match="the activation is 0 on all outputs"):
        gram_fixed_point(lambda inputs: torch.relu(inputs - 10), 4)
