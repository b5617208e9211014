"""The fast polar factor is the polar factor, at every distance."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.polar import nearest_frame, orthonormality_error, polar_factor
from orthoscope.linalg.products import corrected, gram_excess
from orthoscope.manifolds import Stiefel

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def tangent_step(x: Tensor, length: float) -> Tensor:
    """x plus a tangent vector of that spectral norm: what the optimizers retract."""
    v = gaussian(*x.shape, seed=7, dtype=x.dtype)
    v = v - x @ (x.mH @ v + v.mH @ x) / 2
    return x + length * v / torch.linalg.matrix_norm(v, ord=2)[..., None, None]


@pytest.mark.parametrize("length", [0.0, 1e-4, 1e-2, 0.05, 0.2, 0.6, 1.0, 2.0, 5.0, 1e3, 1e8])
@pytest.mark.parametrize("shape", [(9, 4), (3, 16, 16), (2, 40, 20), (2, 2, 9, 4)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nearest_frame_is_the_polar_factor(dtype: torch.dtype, shape: tuple[int, ...], length: float) -> None:
    moved = tangent_step(polar_factor(gaussian(*shape, dtype=dtype)), length)
    eps = torch.finfo(dtype).eps
    frame = nearest_frame(moved)
    assert orthonormality_error(frame).max().item() <= 30 * eps
    torch.testing.assert_close(frame, polar_factor(moved), rtol=0, atol=50 * eps)
    by_columns = moved.mT.contiguous().mT
    transposed = nearest_frame(by_columns)
    torch.testing.assert_close(transposed, frame, rtol=0, atol=20 * eps)
    if length < 1:
        assert transposed.stride() == by_columns.stride(), "the series keeps the layout in memory"


@pytest.mark.parametrize("scale", [0.01, 0.5, 0.8, 1.5, 30.0])
def test_matrices_that_no_tangent_step_makes_are_handled_too(scale: float) -> None:
    frame = polar_factor(gaussian(3, 12, 5))
    stretched = scale * frame * torch.linspace(0.5, 2, 5, dtype=torch.float64)
    torch.testing.assert_close(nearest_frame(stretched), polar_factor(stretched), rtol=0, atol=1e-13)


def test_one_batch_may_hold_near_far_and_broken_matrices() -> None:
    x = polar_factor(gaussian(6, 10, 4))
    moved = torch.stack([tangent_step(x[i], length) for i, length in enumerate((1e-3, 0.3, 1.0, 1e2, 0.0, 1e-3))])
    moved[5, 0, 0] = torch.nan
    frame = nearest_frame(moved)
    torch.testing.assert_close(frame[:5], polar_factor(moved[:5]), rtol=0, atol=1e-13)
    assert bool(frame[5].isnan().all())
    moved[5, 0, 0] = torch.inf
    assert bool(nearest_frame(moved)[5].isnan().all())
    assert nearest_frame(moved[:0]).shape == (0, 10, 4)


@pytest.mark.parametrize(("degree", "constant", "power"), [(1, 3 / 4, 2), (2, 5 / 8, 3), (4, 63 / 128, 5)])
def test_each_degree_leaves_what_its_bound_says(degree: int, constant: float, power: int) -> None:
    """The bound holds, and a matrix with one excess attains it."""
    for excess in (0.02, 0.005):
        frame = torch.eye(6, 3, dtype=torch.float64) * (1 + torch.tensor([excess, 0, 0], dtype=torch.float64)).sqrt()
        left = orthonormality_error(corrected(frame, gram_excess(frame), degree)).item()
        assert left == pytest.approx(constant * excess**power, rel=0.1, abs=1e-15)
    for seed in range(20):
        moved = tangent_step(polar_factor(gaussian(12, 6, seed=seed)), 0.2)
        e = gram_excess(moved)
        row, norm = torch.linalg.vector_norm(e, dim=-1).max().item(), torch.linalg.matrix_norm(e).item()
        left = orthonormality_error(corrected(moved, e.clone(), degree)).item()
        assert left <= 1.1 * constant * row**2 * norm ** (power - 2) + 1e-15


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, where forward mode is loaded
@pytest.mark.parametrize("shape", [(9, 4), (2, 9, 4)], ids=str)
@pytest.mark.parametrize("length", [1e-3, 0.3])
def test_a_short_and_a_long_way_back_have_the_derivatives_of_the_polar_factor(
    length: float, shape: tuple[int, ...]
) -> None:
    moved, direction = tangent_step(polar_factor(gaussian(*shape)), length), gaussian(*shape, seed=3)
    expected, tangent = torch.func.jvp(polar_factor, (moved,), (direction,))
    for found in (nearest_frame, lambda x: Stiefel().retract(moved.detach(), x - moved.detach())):
        frame, derivative = torch.func.jvp(found, (moved,), (direction,))
        torch.testing.assert_close(frame, expected)
        torch.testing.assert_close(derivative, tangent, rtol=1e-4, atol=1e-4)
    tracked = moved.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((nearest_frame(tracked) * direction).sum(), tracked)
    (of_polar,) = torch.autograd.grad((polar_factor(tracked) * direction).sum(), tracked)
    torch.testing.assert_close(gradient, of_polar, rtol=1e-4, atol=1e-4)
