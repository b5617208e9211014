"""The exact polar factor is exact: against forty digits, at every condition number, shape and size."""

import mpmath
import pytest
import torch
from torch import Tensor

from orthoscope.linalg import polar
from orthoscope.linalg.polar import orthonormality_error, polar_factor, product_in_two_parts


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def conditioned(rows: int, columns: int, condition: float, seed: int = 0) -> Tensor:
    left, right = torch.linalg.qr(gaussian(rows, columns, seed=seed)).Q, torch.linalg.qr(gaussian(columns, columns)).Q
    exponents = torch.linspace(0, 1, columns, dtype=torch.float64)
    return (left * condition**-exponents) @ right


def polar_to_forty_digits(matrix: Tensor) -> Tensor:
    with mpmath.workdps(40):
        left, _, right = mpmath.svd_r(mpmath.matrix(matrix.double().tolist()))
        return torch.tensor((left * right).tolist(), dtype=torch.float64)


def from_singular_vectors(matrix: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    return left @ right


@pytest.mark.parametrize("condition", [1e1, 1e5, 1e8])
@pytest.mark.parametrize("shape", [(12, 12), (16, 10)], ids=str)
def test_double_precision_is_exact_where_singular_vectors_are_not(shape: tuple[int, int], condition: float) -> None:
    matrix = conditioned(*shape, condition)
    expected = polar_to_forty_digits(matrix)
    for scale in (1.0, 3e-200, 7e150):
        # Scaled and back is not the same matrix, so this is held to its own error.
        error = (polar_factor(matrix * scale) - expected).abs().max()
        assert error < (1e-14 if scale == 1 else 2e-15 * condition)
    assert (polar_factor(matrix.mT.contiguous()) - expected.mT).abs().max() < 1e-14
    if condition == 1e8:
        assert (from_singular_vectors(matrix) - expected).abs().max() > 1e-12, "the test must see the difference"


@pytest.mark.slow
@pytest.mark.parametrize("condition", [1e1, 1e4, 3e4, 4e4, 1e5, 1e6, 1e8])
@pytest.mark.parametrize("shape", [(256, 256), (300, 260), (260, 300), (513, 512)], ids=str)
def test_single_precision_is_exact_to_1e_6(shape: tuple[int, int], condition: float) -> None:
    """Held against the double precision that forty digits confirm above."""
    tall = conditioned(max(shape), min(shape), condition)
    matrix = (tall if shape[0] >= shape[1] else tall.mT).float()
    expected = polar_factor(matrix.double())
    result = polar_factor(matrix)
    assert result.dtype == torch.float32
    assert result.is_contiguous()
    assert (result - expected).norm() / expected.norm() < 1e-6
    assert (result - expected).abs().max() < 1e-6
    if condition == 1e4:
        assert (from_singular_vectors(matrix) - expected).norm() / expected.norm() > 1e-5, "single precision cannot"


@pytest.fixture
def decompositions(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of the matrices that are decomposed."""
    shapes: list[tuple[int, ...]] = []
    decompose = polar.svd

    def counted(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shapes.append(tuple(matrix.shape))
        return decompose(matrix)

    monkeypatch.setattr(polar, "svd", counted)
    return shapes


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e6])
@pytest.mark.parametrize("kind", ["geometric", "one small value", "one large value"])
def test_large_matrices_are_decomposed_only_if_ill_conditioned(
    kind: str, condition: float, decompositions: list[tuple[int, ...]]
) -> None:
    matrix = conditioned(300, 260, condition)
    if kind != "geometric":
        left, values, right = torch.linalg.svd(matrix, full_matrices=False)
        values = torch.full_like(values, values.max() if kind == "one small value" else values.min())
        values[0] = 1 if kind == "one large value" else 1 / condition
        matrix = (left * values) @ right
    expected = polar_factor(matrix.float().double())
    decompositions.clear()
    result = polar_factor(matrix.float())
    assert bool(decompositions) == (condition > 1e4)
    assert (result - expected).abs().max() < 1e-6


@pytest.mark.parametrize("scale", [1e-36, 1e36])
def test_the_scale_of_a_large_matrix_does_not_matter(scale: float, decompositions: list[tuple[int, ...]]) -> None:
    matrix = conditioned(260, 256, 100.0)
    result = polar_factor((matrix * scale).float())
    assert not decompositions
    assert (result - from_singular_vectors(matrix)).abs().max() < 1e-5  # the matrix is rounded to float32


@pytest.mark.parametrize(
    ("given", "error", "remedy"),
    [
        (torch.ones(3), ValueError, "reshape"),
        (torch.ones(3, 3, dtype=torch.int64), TypeError, "float"),
        (torch.eye(3).to_sparse(), TypeError, "to_dense"),
    ],
)
def test_what_is_no_matrix_is_refused(given: Tensor, error: type[Exception], remedy: str) -> None:
    with pytest.raises(error, match=remedy):
        polar_factor(given)


@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (270, 260)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_rank_deficient_and_broken_matrices(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    batch = gaussian(5, *shape, dtype=dtype)
    batch[1] = 0
    batch[2, :, :3] = batch[2, :, 3:4]
    batch[3, 0, 0], batch[4, 1, 1] = torch.nan, torch.inf
    result = polar_factor(batch)
    assert float(orthonormality_error(result[:3]).max()) < 100 * torch.finfo(dtype).eps
    assert bool(result[3:].isnan().all())
    overlap = (result[2].mH @ batch[2]) if shape[0] >= shape[1] else (batch[2] @ result[2].mH)
    torch.testing.assert_close(
        overlap, overlap.mH, rtol=0, atol=1e-3 if dtype.itemsize < 16 and dtype != torch.float64 else 1e-10
    )
    assert torch.linalg.eigvalsh(overlap).min() > -1e-3, "nearest means that the overlap is positive"
    assert polar_factor(batch[:0]).shape == (0, *shape)


# What torch says to itself while it loads forward mode.
loads_forward_mode = pytest.mark.filterwarnings(r"ignore:`torch\.jit\.script` is deprecated:DeprecationWarning")


@pytest.mark.slow
@loads_forward_mode
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (4, 4), (2, 5, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_derivatives_are_exact_in_both_modes_and_twice(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    matrix = gaussian(*shape, dtype=dtype).requires_grad_()
    assert torch.autograd.gradcheck(polar_factor, matrix, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(polar_factor, matrix, check_fwd_over_rev=True)
    large = gaussian(260, 256, dtype=torch.float32).requires_grad_()
    assert polar_factor(large).requires_grad


@pytest.mark.slow
@loads_forward_mode
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("values", [(1, 1, 1), (2, 2, 1), (3, 1, 1)], ids=str)
def test_equal_singular_values_do_not_stop_a_derivative(values: tuple[int, ...], dtype: torch.dtype) -> None:
    """Where a polar factor is smooth and the singular vectors are not; with only ones, on the Stiefel manifold."""
    for rows in (3, 5):
        left, right = (torch.linalg.qr(gaussian(size, 3, dtype=dtype, seed=size)).Q for size in (rows, 3))
        matrix = (left * torch.tensor(values)) @ right.mH
        assert torch.autograd.gradcheck(polar_factor, matrix.requires_grad_(), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(polar_factor, matrix)
        assert torch.autograd.gradcheck(polar_factor, matrix.mT.detach().requires_grad_())


@pytest.mark.parametrize("size", [3, 300])
def test_at_the_identity_a_gradient_is_its_skew_part(size: int) -> None:
    matrix, gradient = torch.eye(size).requires_grad_(), gaussian(size, size, dtype=torch.float32)
    polar_factor(matrix).backward(gradient)
    torch.testing.assert_close(matrix.grad, (gradient - gradient.mT) / 2)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_gradients_of_other_matrices_are_not_affected_by_one_that_is_not_finite(broken: float) -> None:
    batch = gaussian(3, 6, 4)
    batch[1, 2, 3] = broken
    batch.requires_grad_()
    polar_factor(batch).sum().backward()
    alone = batch.detach()[2].clone().requires_grad_()
    polar_factor(alone).sum().backward()
    assert batch.grad is not None
    torch.testing.assert_close(batch.grad[2], alone.grad)
    assert bool(batch.grad[1].isnan().any())


def test_transforms_of_torch_func_agree_with_autograd() -> None:
    def cubes(matrix: Tensor) -> Tensor:
        return polar_factor(matrix).pow(3).sum()

    def cubes_by_svd(matrix: Tensor) -> Tensor:
        return from_singular_vectors(matrix).pow(3).sum()

    batch = gaussian(3, 5, 4)
    expected = torch.stack([torch.func.grad(cubes_by_svd)(each) for each in batch])
    torch.testing.assert_close(torch.vmap(torch.func.grad(cubes))(batch), expected)
    hessian = torch.autograd.functional.hessian(cubes_by_svd, batch[0])
    torch.testing.assert_close(torch.func.hessian(cubes)(batch[0]), hessian)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(cubes))(batch[0]), hessian)


def test_products_in_two_parts_have_twice_the_digits() -> None:
    left, right = conditioned(9, 9, 1e3), conditioned(9, 9, 1e8, seed=3)
    rest = 1e-18 * gaussian(9, 9, seed=4)
    head, tail = product_in_two_parts(left, right, rest)
    with mpmath.workdps(60):
        matrices = [mpmath.matrix(tensor.tolist()) for tensor in (left, right, rest, head, tail)]
        error = matrices[0] * (matrices[1] + matrices[2]) - matrices[3] - matrices[4]
        assert max(abs(entry) for entry in error) < 1e-22
        plain = matrices[0] * (matrices[1] + matrices[2]) - mpmath.matrix((left @ right).tolist())
        assert max(abs(entry) for entry in plain) > 1e-18, "plain products do not"


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, where forward mode is loaded
@pytest.mark.parametrize("shape", [(256, 256), (270, 256)], ids=str)
def test_forward_derivatives_of_large_single_precision_are_those_of_differences(shape: tuple[int, int]) -> None:
    matrix = conditioned(*shape, 3).float()
    direction = gaussian(*shape, seed=5, dtype=torch.float32) / 16
    _, tangent = torch.func.jvp(polar_factor, (matrix,), (direction,))
    step = 1e-3
    ahead, behind = (polar_factor((matrix + sign * step * direction).double()) for sign in (1, -1))
    difference = (ahead - behind) / (2 * step)
    assert (tangent - difference).norm() / difference.norm() < 1e-4


def test_large_matrices_can_be_mapped_over_and_computed_under_autocast() -> None:
    batch = torch.stack([conditioned(256, 256, 30, seed=seed) for seed in (1, 2)])
    for matrices in (batch, batch.float()):
        torch.testing.assert_close(torch.vmap(polar_factor)(matrices), polar_factor(matrices), rtol=0, atol=1e-6)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = polar_factor(batch.float())
    torch.testing.assert_close(inside, polar_factor(batch.float()), rtol=0, atol=0)


def test_singular_vectors_whose_roundings_add_up_are_no_exception() -> None:
    """A Hadamard matrix: every entry is rounded the same way."""
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    while len(hadamard) < 256:
        hadamard = torch.cat([torch.cat([hadamard, hadamard], 1), torch.cat([hadamard, -hadamard], 1)])
    hadamard /= 16
    for values in (1e4 ** -torch.linspace(0, 1, 256), torch.ones(256).index_fill(0, torch.tensor([255]), 1e-3)):
        matrix = ((hadamard * values.double()) @ hadamard.mT).float()
        expected = polar_factor(matrix.double())
        assert (polar_factor(matrix) - expected).abs().max() < 1e-6


@pytest.mark.slow
def test_a_thousand_rows_are_exact() -> None:
    matrix = conditioned(1100, 1024, 1e4).float()
    expected = from_singular_vectors(matrix.double())
    result = polar_factor(matrix)
    assert (result - expected).norm() / expected.norm() < 1e-6
    assert (result - expected).abs().max() < 1e-6


@pytest.mark.slow
def test_inference_mode_is_kept() -> None:
    matrix = conditioned(1024, 600, 100).float()
    for size in (100, 300, 600):
        part = matrix[:, :size].contiguous()
        with torch.inference_mode():
            result = polar_factor(part)
        assert result.is_inference()
        torch.testing.assert_close(result, polar_factor(part), rtol=0, atol=1e-6)
