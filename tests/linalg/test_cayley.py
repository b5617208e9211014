"""The Cayley chart against a dense solve, its derivatives of every order, and its inverse on the hardest frames."""

from collections.abc import Iterator
from functools import partial

import jaxtyping
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from orthoscope.linalg.cayley import cayley_coordinates, cayley_frame
from orthoscope.linalg.haar import haar
from orthoscope.linalg.polar import orthonormality_error

SHAPES = [(1, 1), (4, 4), (5, 3), (4, 1), (2, 3, 2), (2, 2, 3, 3)]
TYPES = [torch.float64, torch.complex128]

# What torch says to itself while it loads forward mode, and while it compiles a tensor that is no leaf.
pytestmark = [
    pytest.mark.filterwarnings(r"ignore:`torch\.jit\.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:The \.grad attribute of a Tensor that is not a leaf:UserWarning"),
]


def gaussian(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def dense_cayley(generator: Tensor) -> Tensor:
    """The definition, by a solve with the whole rows x rows matrix."""
    rows, columns = generator.shape[-2:]
    skew = torch.zeros(*generator.shape[:-1], rows, dtype=generator.dtype)
    skew[..., :columns] = generator.tril(-1)
    for j in range(columns):
        skew[..., j, j] = 1j * generator[..., j, j].imag if generator.is_complex() else 0
    skew = skew - skew.mH
    identity = torch.eye(rows, dtype=generator.dtype)
    return torch.linalg.solve(identity - skew / 2, identity + skew / 2)[..., :columns]


def skew_of_norm(kind: str, size: int, norm: float) -> Tensor:
    if kind == "low rank":
        matrix = gaussian(size, 2) @ gaussian(2, size, seed=1)
    elif kind == "corner":  # both diagonal blocks are as far from normal as they can be: zero
        matrix = torch.zeros(size, size, dtype=torch.float64)
        matrix[size // 2 :, : size // 2] = gaussian(size - size // 2, size // 2)
    else:
        matrix = gaussian(size, size)
    skew = matrix - matrix.mT
    return skew * (norm / torch.linalg.matrix_norm(skew, 2))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [*SHAPES, (300, 300), (320, 200), (5, 40, 40)], ids=str)
def test_frame_is_the_dense_cayley_transform(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    generator = gaussian(*shape, dtype=dtype) / shape[-2] ** 0.5
    frame = cayley_frame(generator)
    torch.testing.assert_close(frame, dense_cayley(generator), rtol=0, atol=1e-13)
    assert orthonormality_error(frame).max() < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_derivatives_are_exact_in_both_modes_and_twice(
    shape: tuple[int, ...], dtype: torch.dtype, signed: bool
) -> None:
    generator = gaussian(*shape, dtype=dtype).requires_grad_()
    signs = gaussian(*shape[:-2], shape[-1], seed=1).sign().to(dtype) if signed else None
    frame = partial(cayley_frame, signs=signs)
    assert gradcheck(frame, generator, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(frame, generator, check_fwd_over_rev=True)


def test_signs_are_those_of_the_columns() -> None:
    generator, signs = gaussian(2, 5, 3), gaussian(2, 3, seed=1).sign()
    assert torch.equal(cayley_frame(generator, signs), cayley_frame(generator) * signs.unsqueeze(-2))


def test_derivative_of_a_large_frame_is_that_of_the_dense_transform() -> None:
    generator = (gaussian(150, 140) / 10).requires_grad_()
    weights = gaussian(150, 140, seed=1)
    (fast,) = torch.autograd.grad(cayley_frame(generator), generator, weights)
    (slow,) = torch.autograd.grad(dense_cayley(generator), generator, weights)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-12)


def test_only_the_lower_triangle_is_read() -> None:
    generator = gaussian(5, 3)
    other = generator + gaussian(5, 3, seed=1).triu()
    assert torch.equal(cayley_frame(generator), cayley_frame(other))
    assert not torch.equal(cayley_frame(generator), cayley_frame(generator + gaussian(5, 3, seed=1)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gaussian", "low rank", "corner"])
@pytest.mark.parametrize("norm", [1e-3, 1.0, 10.0, 40.0, 100.0, 1e3])
def test_single_precision_frames_stay_orthonormal_whatever_the_norm(kind: str, norm: float) -> None:
    # Measured: at most 2e-6 up to norm 100 and, with pivots, 7e-5 at 1000 (low rank: an inverse that ill-conditioned).
    frame = cayley_frame(skew_of_norm(kind, 512, norm).float())
    assert orthonormality_error(frame) < (3e-6 if norm <= 100 else 3e-4)


@pytest.mark.parametrize("count", [1, 5])
@pytest.mark.parametrize("distance", [1.0, 120.0, 140.0])
def test_frame_of_a_large_generator_is_the_dense_transform(distance: float, count: int) -> None:
    """Up to a Frobenius norm of 140: the inverse is as accurate as LAPACK's, for one matrix and for a batch."""
    skew = skew_of_norm("gaussian", 301, 1.0)
    generator = (skew * (distance / torch.linalg.matrix_norm(skew))).expand(count, -1, -1)
    torch.testing.assert_close(cayley_frame(generator), dense_cayley(generator), rtol=0, atol=4e-13)


@pytest.mark.parametrize("size", [1, 2, 40, 64, 65, 99, 127, 128])
@pytest.mark.parametrize("norm", [0.0, 1.0, 100.0])
def test_small_single_precision_frames_are_accurate(size: int, norm: float) -> None:
    generator = skew_of_norm("gaussian", size, norm) if size > 1 else torch.zeros(1, 1, dtype=torch.float64)
    generator = generator.float()
    assert (cayley_frame(generator) - dense_cayley(generator.double())).abs().max() < 2e-6


def test_single_precision_gradient_is_within_a_millionth() -> None:
    generator, weights = skew_of_norm("gaussian", 256, 1.0), gaussian(256, 256, seed=1)
    exact, single = generator.clone().requires_grad_(), generator.float().requires_grad_()
    cayley_frame(exact).backward(weights)
    cayley_frame(single).backward(weights.float())
    assert exact.grad is not None
    assert single.grad is not None
    assert (single.grad - exact.grad).norm() < 1e-6 * exact.grad.norm()


@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 5, 3)], ids=str)
def test_func_transforms_agree_with_batches_and_with_autograd(shape: tuple[int, ...]) -> None:
    generators = gaussian(*shape)
    frames = cayley_frame(generators)
    assert torch.equal(torch.func.vmap(cayley_frame)(generators), frames)
    assert torch.equal(torch.func.vmap(cayley_frame, in_dims=2)(generators.movedim(0, 2)), frames)

    def loss(generator: Tensor) -> Tensor:
        return cayley_frame(generator).pow(3).sum()

    leaf = generators.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(loss))(generators), expected)
    jacobians = torch.func.jacrev(cayley_frame)(generators[0]), torch.func.jacfwd(cayley_frame)(generators[0])
    torch.testing.assert_close(*jacobians)
    dense = torch.autograd.functional.hessian(lambda x: dense_cayley(x).pow(3).sum(), generators[0])
    torch.testing.assert_close(torch.func.hessian(loss)(generators[0]), dense)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without shape checks: a graph break inside of one would leave it half done."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (140, 140)], ids=str)
def test_compiled_value_and_gradient_are_the_same(shape: tuple[int, ...]) -> None:
    def loss(generator: Tensor) -> Tensor:
        return (2 * cayley_frame(generator * 0.1)).pow(3).sum()

    torch.compiler.reset()
    leaf = gaussian(*shape).requires_grad_()
    compiled = torch.compile(loss, backend="aot_eager")(leaf)
    torch.testing.assert_close(compiled, loss(leaf))
    torch.testing.assert_close(*(torch.autograd.grad(value, leaf)[0] for value in (compiled, loss(leaf))))


def test_autocast_leaves_the_precision_alone() -> None:
    generator = gaussian(12, 8).float().requires_grad_()
    frame = cayley_frame(generator)
    (plain,) = torch.autograd.grad(frame.sum(), generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = cayley_frame(generator)
        (gradient,) = torch.autograd.grad(cast.sum(), generator)
    assert torch.equal(cast, frame)
    assert torch.equal(gradient, plain)


def rotation_by_pi(size: int) -> Tensor:
    """Half of the plane turns by exactly pi, in random directions."""
    basis = haar(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(size))
    turned = torch.where(torch.arange(size) < size // 2, -1.0, 1.0).double()
    return basis @ torch.diag(turned) @ basis.mT


def cycle(size: int) -> Tensor:
    return torch.eye(size, dtype=torch.float64).roll(1, dims=0)


def hard_frames() -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(0)
    uniform = {f"haar {n}x{k}": haar(n, k, dtype=torch.float64, generator=random) for n, k in [(9, 9), (9, 4), (7, 1)]}
    reflected = haar(8, 8, dtype=torch.float64, generator=random)
    reflected[:, 0] *= -torch.linalg.det(reflected).sign()
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    return {
        **uniform,
        **{f"cycle of {n}": cycle(n) for n in range(1, 9)},
        **{f"rotation by pi in {n}": rotation_by_pi(n) for n in (2, 5, 8)},
        "determinant -1": reflected,
        "minus identity": -torch.eye(6, dtype=torch.float64),
        "minus identity, tall": -torch.eye(6, 3, dtype=torch.float64),
        "diagonal of signs": torch.diag(signs),
        "reversal": torch.eye(7, dtype=torch.float64).flip(0),
        "only rows below": torch.eye(7, dtype=torch.float64)[:, 4:],
        "plane turned by pi": torch.tensor([[-1.0, 0.0], [0.0, -1.0]], dtype=torch.float64),
        "one by one": torch.tensor([[-1.0]], dtype=torch.float64),
        "batch": haar(6, 4, 2, 3, dtype=torch.float64, generator=random),
        "complex": torch.linalg.qr(gaussian(7, 7, dtype=torch.complex128)).Q,
        "complex, tall": torch.linalg.qr(gaussian(7, 3, dtype=torch.complex128)).Q * 1j,
        "minus i": -1j * torch.eye(4, dtype=torch.complex128),
        "complex phases": torch.diag(torch.exp(1j * torch.arange(8, dtype=torch.float64) * torch.pi / 4)),
    }


@pytest.mark.parametrize("name", hard_frames())
def test_every_frame_has_coordinates(name: str) -> None:
    frame = hard_frames()[name]
    generator, signs = cayley_coordinates(frame)
    assert torch.equal(signs.abs(), torch.ones(frame.shape[:-2] + frame.shape[-1:], dtype=signs.dtype))
    torch.testing.assert_close(cayley_frame(generator, signs), frame, rtol=0, atol=1e-13)


@pytest.mark.parametrize("shape", [(6, 6), (6, 4), (3, 5, 5)], ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_coordinates_of_a_frame_near_the_identity_are_its_generator(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    generator = 0.1 * gaussian(*shape, dtype=dtype)
    found, signs = cayley_coordinates(cayley_frame(generator))
    assert (signs == 1).all()
    diagonal = torch.diag_embed(generator.diagonal(dim1=-2, dim2=-1)[..., : shape[-1]])
    read = generator.tril(-1)
    if dtype.is_complex:
        read[..., : shape[-1], :] += diagonal - diagonal.real
    torch.testing.assert_close(found, read, rtol=0, atol=1e-13)


def test_single_precision_round_trip_loses_no_more_than_the_generator_rounds() -> None:
    frame = haar(256, 256, generator=torch.Generator().manual_seed(0))
    generator, signs = cayley_coordinates(frame)
    assert generator.dtype == signs.dtype == torch.float32
    # Measured: 5e-7 to 2e-6.
    assert (cayley_frame(generator) * signs - frame).abs().max() < 1e-5


def test_tall_frames_need_no_square_matrix_of_their_rows() -> None:
    frame = haar(30000, 50, generator=torch.Generator().manual_seed(0))  # 30000 x 30000 would be 3.6 GB
    generator, signs = cayley_coordinates(frame)
    again = cayley_frame(generator) * signs
    assert (again - frame).abs().max() < 1e-6
    assert orthonormality_error(again) < 3e-6


@pytest.mark.parametrize("shape", [(3, 3), (6, 3), (200, 200)], ids=str)
def test_nan_comes_out_as_nan(shape: tuple[int, ...]) -> None:
    generator = torch.zeros(2, *shape)
    generator[0, 2, 0] = torch.nan
    frame = cayley_frame(generator)
    assert frame[0].isnan().any()
    torch.testing.assert_close(frame[1], torch.eye(*shape))
    assert cayley_coordinates(frame)[0][0].isnan().any()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 5, 3), (3, 0), (0, 0)], ids=str)
def test_empty_batches_stay_empty(shape: tuple[int, ...]) -> None:
    generator = torch.zeros(shape, requires_grad=True)
    frame = cayley_frame(generator)
    frame.sum().backward()
    found, signs = cayley_coordinates(frame)
    assert frame.shape == found.shape == shape
    assert signs.shape == shape[:-2] + shape[-1:]


def test_wide_matrices_are_refused() -> None:
    for function in (cayley_frame, cayley_coordinates):
        with pytest.raises(ValueError, match=r"at least as many rows as columns, got shape \(2, 3\)"):
            function(torch.zeros(2, 3))


@pytest.mark.parametrize("length", [1.0, 100.0, 1000.0])
def test_tall_float32_frames_are_orthonormal_however_long_the_generator(length: float) -> None:
    generator = torch.zeros(256, 64)
    direction = torch.outer(gaussian(192, dtype=torch.float32), gaussian(64, dtype=torch.float32, seed=1))
    generator[64:] = length * direction / direction.norm()
    assert orthonormality_error(cayley_frame(generator)) < 3e-6
