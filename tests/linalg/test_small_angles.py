"""The inverse for small angles: as good as a factorisation, within its reach, and not used beyond it."""

import numpy
import pytest
import torch
from torch import Tensor

from orthoscope.linalg import cayley, orthonormality_error, small_angles
from orthoscope.linalg.small_angles import small_angle_inverse

EPS = torch.finfo(torch.float32).eps


def skew_of_norm(norm: float, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Skew-Hermitian matrices, the largest of spectral norm `norm`."""
    matrix = torch.randn(*shape, shape[-1], generator=torch.Generator().manual_seed(0), dtype=dtype)
    matrix = matrix - matrix.mH
    return matrix * (norm / torch.linalg.matrix_norm(matrix, 2).max())


def exact(skew: Tensor) -> Tensor:
    precise = skew.to(torch.promote_types(skew.dtype, torch.float64))
    return torch.linalg.inv(2 * torch.eye(skew.shape[-1], dtype=precise.dtype) - precise)


def test_the_polynomial_misses_by_one_rounding_within_its_reach_and_by_more_beyond() -> None:
    reach, p = small_angles._polynomial()
    u = numpy.linspace(0, reach, 10001)
    residual = abs(1 - (4 + u) * numpy.polynomial.Polynomial(p)(u))
    assert residual.max() <= 1.001 * EPS
    assert residual.max() >= 0.999 * EPS, "the reach could be larger"
    # Best of its degree: the residual comes to its largest size eight times.
    assert (numpy.diff(numpy.sign(numpy.diff(residual))) < 0).sum() + 2 == 8
    assert abs(1 - (4 + 1.1 * reach) * numpy.polynomial.Polynomial(p)(1.1 * reach)) > 2 * EPS


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", [(96,), (128,), (192,), (5, 3), (20, 32), (2, 3, 64)], ids=str)
@pytest.mark.parametrize("norm", [0.0, 1e-3, 0.5, 1.0])
def test_it_is_the_inverse_to_rounding(norm: float, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    skew = skew_of_norm(norm, *shape, dtype=dtype)
    inverse = small_angle_inverse(skew)
    if inverse is None:
        # Of three rows the mean eigenvalue is no quarter of the largest.
        assert (shape[-1], norm) == (3, 1.0)
        return
    assert (inverse - exact(skew)).abs().max() < 2 * EPS


def test_norms_out_of_reach_are_left_to_a_factorisation() -> None:
    reach, _ = small_angles._polynomial()
    assert small_angle_inverse(skew_of_norm(1.3 * reach**0.5, 128)) is None
    # One large angle among many small ones does not show in the mean.
    spiked = skew_of_norm(0.1, 4, 128)
    spiked[2, 0, 1], spiked[2, 1, 0] = 2.0, -2.0
    assert small_angle_inverse(spiked) is None
    assert small_angle_inverse(spiked[:2]) is not None
    broken = skew_of_norm(0.5, 128)
    broken[0, 1] = torch.nan
    assert small_angle_inverse(broken) is None


def test_nothing_is_gained_for_one_small_or_one_large_matrix_and_precision_is_not_given_up() -> None:
    assert small_angle_inverse(skew_of_norm(0.5, 32)) is None
    assert small_angle_inverse(skew_of_norm(0.5, 256)) is None
    assert small_angle_inverse(skew_of_norm(0.1, 128, dtype=torch.float64)) is None
    assert small_angle_inverse(torch.empty(0, 128, 128)) is None
    assert small_angle_inverse(torch.empty(128, 128, device="meta")) is None


@pytest.mark.parametrize("shape", [(128,), (6, 40)], ids=str)
def test_a_frame_and_its_gradient_are_those_of_the_factorisation(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    generator = skew_of_norm(1.0, *shape).requires_grad_()
    direction = torch.randn(generator.shape, generator=torch.Generator().manual_seed(1))

    def frame_and_gradient() -> tuple[Tensor, Tensor]:
        frame = cayley.cayley_frame(generator)
        return frame.detach(), torch.autograd.grad(frame, generator, direction)[0]

    used = []
    monkeypatch.setattr(cayley, "small_angle_inverse", lambda skew: used.append(small_angle_inverse(skew)) or used[-1])
    frame, gradient = frame_and_gradient()
    assert used[0] is not None
    monkeypatch.setattr(cayley, "small_angle_inverse", lambda skew: None)
    factored, factored_gradient = frame_and_gradient()
    assert orthonormality_error(frame).max() < 1e-6
    torch.testing.assert_close(frame, factored, rtol=0, atol=2e-6)
    torch.testing.assert_close(gradient, factored_gradient, rtol=0, atol=3e-6 * float(factored_gradient.abs().max()))
