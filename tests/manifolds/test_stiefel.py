"""What is particular to the Stiefel manifold."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.polar import polar_factor
from orthoscope.manifolds import Stiefel


def gaussian(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_manifolds_are_equal_by_their_metric() -> None:
    assert Stiefel() == Stiefel("euclidean") != Stiefel("canonical")
    assert repr(Stiefel("canonical")) == "Stiefel(metric='canonical')"
    assert len({Stiefel(), Stiefel("euclidean"), Stiefel("canonical")}) == 2


def test_metrics_agree_off_the_span_and_differ_by_two_within_it() -> None:
    x = torch.eye(5, 2, dtype=torch.float64)
    within, off = torch.zeros_like(x), torch.zeros_like(x)
    within[0, 1], within[1, 0], off[3, 0] = -1, 1, 1
    assert Stiefel().inner(x, within, within).item() == 2
    assert Stiefel("canonical").inner(x, within, within).item() == 1
    assert Stiefel().inner(x, off, off).item() == Stiefel("canonical").inner(x, off, off).item() == 1


@pytest.mark.parametrize("length", [1e12, 1e20, 1e37])
@pytest.mark.parametrize("method", ["polar", "qr", "cayley"])
def test_steps_as_long_as_single_precision_holds_land(method: str, length: float) -> None:
    x = torch.eye(8, 5)
    everywhere = Stiefel().to_tangent(x, gaussian(8, 5).float()) * length
    one_column = torch.zeros(8, 5)
    one_column[7, 0] = length
    for v in (everywhere, one_column):
        y = Stiefel().retract(x, v, method)
        assert bool(Stiefel().contains(y, tolerance=1e-5))


@pytest.mark.parametrize("metric", ["euclidean", "canonical"])
def test_very_tall_frames_need_no_square_of_their_height(metric: str) -> None:
    """A 30000 x 30000 matrix would be 3.6 GB."""
    manifold = Stiefel(metric)
    x = manifold.sample(30_000, 4, generator=torch.Generator().manual_seed(0))
    v = manifold.riemannian_gradient(x, gaussian(30_000, 4, seed=1).float()) / 100
    for y in (
        *(manifold.retract(x, v, method) for method in ("polar", "qr", "cayley")),
        manifold.exp(x, v),
    ):
        assert bool(manifold.contains(y, tolerance=1e-5))


@pytest.mark.parametrize("method", ["qr", "cayley"])
def test_retractions_by_smooth_operations_are_differentiable(method: str) -> None:
    x = polar_factor(gaussian(5, 3))
    v = (0.3 * Stiefel().to_tangent(x, gaussian(5, 3, seed=1))).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: Stiefel().retract(x, v, method), (v,))


@pytest.mark.parametrize("metric", ["euclidean", "canonical"])
def test_geodesics_are_differentiable(metric: str) -> None:
    x = polar_factor(gaussian(5, 3))
    v = (0.3 * Stiefel().to_tangent(x, gaussian(5, 3, seed=1))).requires_grad_()
    assert torch.autograd.gradcheck(lambda v: Stiefel(metric).exp(x, v), (v,))


def test_on_the_sphere_both_geodesics_are_great_circles() -> None:
    x = polar_factor(gaussian(4, 1))
    v = Stiefel().to_tangent(x, gaussian(4, 1, seed=1))
    angle = v.norm()
    circle = angle.cos() * x + angle.sin() * v / angle
    for metric in ("euclidean", "canonical"):
        torch.testing.assert_close(Stiefel(metric).exp(x, v), circle)


def test_tangents_and_frames_are_told_from_what_is_nearly_so() -> None:
    x = polar_factor(gaussian(3, 6, 2)).float()
    v = Stiefel().to_tangent(x, gaussian(3, 6, 2, seed=1).float())
    assert bool(Stiefel().is_tangent(x, v).all())
    assert bool(Stiefel().is_tangent(x, 1e6 * v).all())
    assert not bool(Stiefel().is_tangent(x, v + 1e-4 * x).any())
    assert bool(Stiefel().is_tangent(x, v + 1e-4 * x, tolerance=1e-3).all())
    assert not bool(Stiefel().contains(x + 1e-4 * x).any())
    assert bool(Stiefel().contains(x + 1e-4 * x, tolerance=1e-3).all())
    assert Stiefel().contains(x).shape == (3,)
