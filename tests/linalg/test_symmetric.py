"""Half of a Hermitian product, and inverses by halves, are what the plain ones are."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg.symmetric import hermitian_product, positive_inverse


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("shape", [(3, 5), (700, 512), (512, 700), (2, 600, 513), (1, 513, 640)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
def test_hermitian_products(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    frame = gaussian(*shape, dtype=dtype)
    result = hermitian_product(frame.mH, frame)
    torch.testing.assert_close(result, frame.mH @ frame)
    if shape[-1] >= 512:
        assert torch.equal(result[..., 128:, :128], result[..., :128, 128:].mH), "the other half is a copy"


@pytest.mark.parametrize("shape", [(3, 5), (600, 512), (2, 520, 513)], ids=str)
def test_hermitian_products_go_where_they_are_asked_to(shape: tuple[int, ...]) -> None:
    frame = gaussian(*shape)
    place = torch.full((*shape[:-2], shape[-1], shape[-1]), torch.nan, dtype=torch.float64)
    assert hermitian_product(frame.mT, frame, out=place).data_ptr() == place.data_ptr()
    torch.testing.assert_close(place, frame.mT @ frame)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, where forward mode is loaded
@pytest.mark.parametrize("size", [4, 520])
def test_derivatives_pass_through_a_place(size: int) -> None:
    frame, direction = gaussian(size, size), gaussian(size, size, seed=1)

    def gram(frame: Tensor) -> Tensor:
        return hermitian_product(frame.mT, frame, out=torch.empty_like(frame))

    tangent = direction.mT @ frame + frame.mT @ direction
    torch.testing.assert_close(torch.func.jvp(gram, (frame,), (direction,))[1], tangent)


def test_squares_of_skew_matrices() -> None:
    skew = gaussian(530, 530)
    skew = skew - skew.mT
    torch.testing.assert_close(hermitian_product(skew, skew), skew @ skew)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, where forward mode is loaded
def test_derivatives_and_batches_pass_through() -> None:
    frame, direction = gaussian(520, 512), gaussian(520, 512, seed=1)

    def gram(frame: Tensor) -> Tensor:
        return hermitian_product(frame.mT, frame)

    tangent = direction.mT @ frame + frame.mT @ direction
    torch.testing.assert_close(torch.func.jvp(gram, (frame,), (direction,))[1], tangent)
    torch.testing.assert_close(torch.vmap(gram)(frame[None])[0], frame.mT @ frame)
    tracked = frame.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(gram(tracked).sum(), tracked)
    torch.testing.assert_close(gradient, 2 * frame.sum(1, keepdim=True).expand_as(frame))


@pytest.mark.parametrize("size", [1, 40, 511, 512, 700, 1025])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_positive_inverses(size: int, dtype: torch.dtype) -> None:
    frame = gaussian(size, size, dtype=dtype)
    matrix = frame.mT @ frame * (30 / size)
    matrix.diagonal().add_(1)
    result = positive_inverse(matrix.clone(), condition=150.0)
    below = matrix.triu() + torch.full_like(matrix, torch.nan).tril(-1)
    assert torch.equal(positive_inverse(below, condition=150.0), result), "nothing is read below the diagonal"
    # To first order the residual is as many roundings as the condition number; nothing is lost by the halves.
    residual = (result.double() @ matrix.double() - torch.eye(size)).abs().max()
    plain = torch.cholesky_inverse(torch.linalg.cholesky(matrix))
    assert residual < 4 * (plain.double() @ matrix.double() - torch.eye(size)).abs().max() + 1e-30
    torch.testing.assert_close(result, result.mT)


def test_nan_gives_nan_and_does_not_raise_or_touch_the_others() -> None:
    assert not bool(positive_inverse(torch.full((600, 600), torch.nan), condition=10.0).isfinite().any())
    stack = torch.stack([torch.eye(4), torch.full((4, 4), torch.nan)])
    assert torch.equal(positive_inverse(stack, condition=1.0)[0], torch.eye(4))


def test_ill_conditioned_matrices_are_factorised() -> None:
    """The residual of halves grows with the condition number, that of a factor does not."""
    values = torch.logspace(0, 4, 600, dtype=torch.float64)
    basis = torch.linalg.qr(gaussian(600, 600)).Q
    matrix = ((basis * values) @ basis.mT).float()
    matrix = (matrix + matrix.mT) / 2
    result = positive_inverse(matrix, condition=1e4)
    factor = torch.linalg.cholesky(matrix, upper=True)
    assert torch.equal(result, torch.cholesky_inverse(factor, upper=True))
