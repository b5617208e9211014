"""The exponential chart against scipy and exact rational arithmetic, and its derivatives of every order."""

from collections.abc import Iterator
from math import factorial

import jaxtyping
import mpmath
import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from orthoscope.linalg.exponential import _COEFFICIENTS, exponential_frame, skew_exponential, spectral_bounds
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


def frame_of(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.linalg.qr(gaussian(*shape, dtype=dtype, seed=7)).Q


def skew_of_norm(size: int, norm: float, dtype: torch.dtype = torch.float64) -> Tensor:
    matrix = gaussian(size, size, dtype=dtype)
    skew = matrix - matrix.mH
    return skew * (norm / torch.linalg.matrix_norm(skew, 2))


def scipy_exponential(matrix: Tensor) -> Tensor:
    return torch.from_numpy(np.stack([scipy.linalg.expm(a) for a in matrix.flatten(0, -3).numpy()])).view(matrix.shape)


def dense_frame(coordinates: Tensor, anchor: Tensor) -> Tensor:
    """The definition, one matrix at a time: tall ones by a full orthonormal basis and a rows x rows exponential."""
    rows, columns = coordinates.shape
    lower = coordinates.tril(0 if coordinates.is_complex() else -1)
    if rows == columns:
        return anchor @ scipy_exponential((lower - lower.mH)[None])[0]
    basis = torch.linalg.qr(torch.cat([anchor, gaussian(rows, rows - columns, dtype=anchor.dtype, seed=3)], -1)).Q
    basis[:, :columns] = anchor
    skew = torch.zeros(rows, rows, dtype=anchor.dtype)
    inside = basis.mH @ coordinates
    skew[:columns, :columns] = (inside[:columns] - inside[:columns].mH) / 2
    skew[columns:, :columns] = inside[columns:]
    skew[:columns, columns:] = -inside[columns:].mH
    return basis @ scipy_exponential(skew[None])[0][:, :columns]


def test_four_products_make_the_taylor_polynomial_of_degree_twelve() -> None:
    def product(p: list[mpmath.mpf], q: list[mpmath.mpf]) -> list[mpmath.mpf]:
        return [sum(p[i] * q[d - i] for i in range(len(p)) if 0 <= d - i < len(q)) for d in range(len(p) + len(q) - 1)]

    def total(p: list[mpmath.mpf], q: list[mpmath.mpf]) -> list[mpmath.mpf]:
        return [(p[i] if i < len(p) else 0) + (q[i] if i < len(q) else 0) for i in range(max(len(p), len(q)))]

    with mpmath.workdps(40):
        # The doubles that the code computes with, not the decimals they were read from.
        b0, b1, b2, b3 = ([mpmath.mpf(c) for c in row] for row in _COEFFICIENTS)
        a6 = total(b2, product(b3, b3))
        polynomial = total(b0, product(total(b1, a6), a6))
        assert len(polynomial) == 13
        errors = [abs(c * factorial(j) - 1) for j, c in enumerate(polynomial)]
    assert max(errors) < 4 * torch.finfo(torch.float64).eps


def test_exponential_of_a_plane_is_a_rotation_to_every_digit() -> None:
    for angle in (1e-8, 0.3, 1.0, 3.0, 20.0):
        skew = torch.tensor([[0.0, -angle], [angle, 0.0]], dtype=torch.float64)
        cosine, sine = float(mpmath.cos(angle)), float(mpmath.sin(angle))
        expected = torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64)
        torch.testing.assert_close(skew_exponential(skew), expected, rtol=0, atol=2e-15 * max(1.0, angle))


@pytest.mark.parametrize("norm", [0.0, 1e-12, 0.1, 0.33, 1.0, 10.0, 1e3])
@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1, torch.complex128), (7, torch.float64), (7, torch.complex128), (40, torch.float64)],
    ids=["1 complex", "7 real", "7 complex", "40 real"],
)
def test_exponential_is_scipys_in_double_precision(size: int, dtype: torch.dtype, norm: float) -> None:
    skew = skew_of_norm(size, norm, dtype)
    orthogonal = skew_exponential(skew)
    atol = 1e-13 * max(1.0, norm)  # the phase of an eigenvalue is only known to norm times rounding
    torch.testing.assert_close(orthogonal, scipy_exponential(skew[None])[0], rtol=0, atol=atol)
    assert orthonormality_error(orthogonal) < atol


def tall_of_norm(norm: float) -> Tensor:
    coordinates = gaussian(512, 96)
    coordinates *= norm / torch.linalg.matrix_norm(coordinates, 2)
    return exponential_frame(coordinates.float(), frame_of(512, 96).float())


@pytest.mark.slow
@pytest.mark.parametrize("norm", [1e-3, 1.0, 1.59, 5.0, 10.0, 1e3, 1e4, 1e6, 1e8])
def test_single_precision_is_orthonormal_to_rounding_whatever_the_angle(norm: float) -> None:
    # At most 2.6e-6, seen with two squarings, after which nothing is corrected yet.
    assert orthonormality_error(skew_exponential(skew_of_norm(512, norm).float())) < 4e-6
    if norm <= 1e4:
        assert orthonormality_error(tall_of_norm(norm)) < 1e-6


def test_tall_frames_of_lost_angles_are_nan_and_not_almost_frames() -> None:
    assert tall_of_norm(1e7).isnan().all()


@pytest.mark.parametrize("shape", [(3, 3), (5, 3)], ids=str)
def test_corrections_on_the_way_leave_the_derivative_alone(shape: tuple[int, int]) -> None:
    coordinates = (30 * gaussian(*shape)).requires_grad_()
    assert gradcheck(exponential_frame, (coordinates, frame_of(*shape)), check_forward_ad=True)


@pytest.mark.parametrize("columns", [256, 64])
def test_single_precision_gradient_is_within_a_millionth(columns: int) -> None:
    coordinates, anchor = gaussian(256, columns) / 32, frame_of(256, columns)
    exact, single = coordinates.clone().requires_grad_(), coordinates.float().requires_grad_()
    weights = gaussian(256, columns, seed=1)
    exponential_frame(exact, anchor).backward(weights)
    exponential_frame(single, anchor.float()).backward(weights.float())
    assert exact.grad is not None
    assert single.grad is not None
    assert (single.grad - exact.grad).norm() < 1e-6 * exact.grad.norm()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (6, 4), (9, 3), (5, 1)], ids=str)
@pytest.mark.parametrize("scale", [0.0, 0.3, 4.0])
def test_frame_is_the_exponential_of_the_dense_skew_matrix(
    shape: tuple[int, int], scale: float, dtype: torch.dtype
) -> None:
    coordinates, anchor = scale * gaussian(*shape, dtype=dtype), frame_of(*shape, dtype=dtype)
    frame = exponential_frame(coordinates, anchor)
    atol = 1e-13 * (1 + scale)
    torch.testing.assert_close(frame, dense_frame(coordinates, anchor), rtol=0, atol=atol)
    assert orthonormality_error(frame) < atol


@pytest.mark.slow
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("shape", "scale"), [((3, 3), 0.0), ((4, 2), 0.0), *((s, 2.0) for s in SHAPES)], ids=str)
def test_derivatives_are_exact_in_both_modes_and_twice(
    shape: tuple[int, ...], scale: float, dtype: torch.dtype
) -> None:
    anchor = frame_of(*shape, dtype=dtype)
    coordinates = (scale * gaussian(*shape, dtype=dtype)).requires_grad_()
    assert gradcheck(exponential_frame, (coordinates, anchor), check_forward_ad=True)
    assert gradgradcheck(exponential_frame, (coordinates, anchor))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_zero_gives_the_anchor_and_moves_by_the_tangent_projection(dtype: torch.dtype) -> None:
    anchor, direction = frame_of(7, 3, dtype=dtype), gaussian(7, 3, dtype=dtype)
    frame, moved = torch.func.jvp(lambda x: exponential_frame(x, anchor), (torch.zeros_like(anchor),), (direction,))
    overlap = anchor.mH @ direction
    torch.testing.assert_close(frame, anchor, rtol=0, atol=1e-15)
    torch.testing.assert_close(moved, direction - anchor @ (overlap + overlap.mH) / 2, rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_bound_is_never_below_the_spectrum_and_can_be_reached(dtype: torch.dtype) -> None:
    ratios = []
    for seed in range(200):
        # From one eigenvalue that dwarfs the others to all of them equal.
        size, spread = 2 + seed % 15, seed % 7
        angles = torch.rand(size // 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** spread
        turns = [torch.tensor([[0.0, -a], [a, 0.0]], dtype=torch.float64) for a in angles.tolist()]
        basis = torch.linalg.qr(gaussian(size - size % 2, size - size % 2, dtype=dtype, seed=seed)).Q
        skew = (basis @ torch.block_diag(*turns).to(dtype) @ basis.mH)[None]
        (bound,) = spectral_bounds(skew, skew @ skew, skew @ skew @ skew, skew=True)
        (similar,) = spectral_bounds(skew, skew @ skew, skew @ skew @ skew, skew=False)
        assert abs(similar - bound) <= 1e-6 * bound
        ratios.append(bound / angles.max().item())
    assert min(ratios) > 1 - 1e-12
    assert min(ratios) < 1.05
    assert max(ratios) < 2


def test_bound_is_far_below_the_norms_that_cost_as_little() -> None:
    skew = skew_of_norm(512, 1.0)[None]
    (bound,) = spectral_bounds(skew, skew @ skew, skew @ skew @ skew, skew=True)
    assert 1 <= bound < 1.6 < torch.linalg.matrix_norm(skew @ skew, 1).sqrt()


@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 5, 3)], ids=str)
def test_func_transforms_agree_with_batches_and_with_autograd(shape: tuple[int, ...]) -> None:
    coordinates, anchor = gaussian(*shape), frame_of(*shape[1:])

    def chart(x: Tensor) -> Tensor:
        return exponential_frame(x, anchor)

    def loss(x: Tensor) -> Tensor:
        return chart(x).pow(3).sum()

    batched = exponential_frame(coordinates, anchor.expand(shape))
    torch.testing.assert_close(torch.func.vmap(chart)(coordinates), batched)
    torch.testing.assert_close(torch.func.vmap(chart, in_dims=2)(coordinates.movedim(0, 2)), batched)
    for value in (loss, lambda x: chart(x).sum()):  # the second has one cotangent for all, which is not batched
        leaf = coordinates.clone().requires_grad_()
        (expected,) = torch.autograd.grad(sum(value(x) for x in leaf), leaf)
        torch.testing.assert_close(torch.func.vmap(torch.func.grad(value))(coordinates), expected)
    torch.testing.assert_close(torch.func.jacrev(chart)(coordinates[0]), torch.func.jacfwd(chart)(coordinates[0]))
    hessian = torch.autograd.functional.hessian(loss, coordinates[0])
    torch.testing.assert_close(torch.func.hessian(loss)(coordinates[0]), hessian)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without shape checks: a graph break inside of one would leave it half done."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3, 3), (5, 3)], ids=str)
def test_compiled_value_and_gradient_are_the_same(shape: tuple[int, int]) -> None:
    anchor = frame_of(*shape)

    def loss(x: Tensor) -> Tensor:
        return (2 * exponential_frame(3 * x, anchor)).pow(3).sum()

    torch.compiler.reset()
    leaf = gaussian(*shape).requires_grad_()
    compiled = torch.compile(loss, backend="aot_eager")(leaf)
    torch.testing.assert_close(compiled, loss(leaf))
    torch.testing.assert_close(*(torch.autograd.grad(value, leaf)[0] for value in (compiled, loss(leaf))))


def test_autocast_leaves_the_precision_alone() -> None:
    for rows in (8, 12):
        coordinates, anchor = gaussian(rows, 8).float().requires_grad_(), frame_of(rows, 8).float()
        frame = exponential_frame(coordinates, anchor)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(exponential_frame(coordinates, anchor), frame)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
@pytest.mark.parametrize("rows", [3, 5])
def test_what_is_not_finite_or_overflows_comes_out_as_nan_and_alone(rows: int, value: float) -> None:
    coordinates, anchor = torch.zeros(2, rows, 3), haar(rows, 3, 2, generator=torch.Generator().manual_seed(0))
    coordinates[0, 2, 0] = value
    coordinates.requires_grad_()
    frame = exponential_frame(coordinates, anchor)
    assert frame[0].isnan().all()
    torch.testing.assert_close(frame[1], anchor[1])
    frame.sum().backward()
    assert coordinates.grad is not None
    assert coordinates.grad[0].isnan().any()
    assert coordinates.grad[1].isfinite().all()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 5, 3)], ids=str)
def test_empty_batches_stay_empty(shape: tuple[int, ...]) -> None:
    coordinates = torch.zeros(shape, requires_grad=True)
    frame = exponential_frame(coordinates, torch.zeros(shape))
    frame.sum().backward()
    assert frame.shape == shape


def test_tall_frames_need_no_square_matrix_of_their_rows() -> None:
    anchor = haar(30000, 20, generator=torch.Generator().manual_seed(0))  # 30000 x 30000 would be 3.6 GB
    coordinates = gaussian(30000, 20).float() / 100
    assert orthonormality_error(exponential_frame(coordinates, anchor)) < 3e-6


@pytest.mark.parametrize("shape", [(4, 4), (5, 3)], ids=str)
def test_matrices_without_numbers_have_exponentials_without_numbers(shape: tuple[int, int]) -> None:
    coordinates, anchor = (torch.empty(shape, device="meta") for _ in range(2))
    assert exponential_frame(coordinates, anchor).shape == shape


def test_wide_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at least as many rows as columns, got 2 x 3"):
        exponential_frame(torch.zeros(2, 3), torch.zeros(2, 3))
