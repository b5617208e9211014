"""The exact polar factor is exact: against forty digits, at every condition number, shape and size."""

import itertools
import math

import mpmath
import pytest
import torch
from torch import Tensor

from orthoscope.linalg.exact_products import exact_product, leading_bits, power_of_two
from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.linalg.polar_newton import newton_polar_factor
from orthoscope.linalg.polar_zolotarev import zolotarev, zolotarev_polar_factor
from orthoscope.linalg.rational import halley_weights


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


@pytest.mark.parametrize("condition", [1e1, 1e4, 3e4, 4e4, 1e8])
@pytest.mark.parametrize("shape", [(256, 256), (300, 260), (260, 300), (513, 512)], ids=str)
def test_single_precision_is_exact_to_1e_6_without_a_decomposition(shape: tuple[int, int], condition: float) -> None:
    """Held against the double precision that forty digits confirm above."""
    tall = conditioned(max(shape), min(shape), condition)
    matrix = (tall if shape[0] >= shape[1] else tall.mT).float()
    expected = polar_factor(matrix.double())
    result = polar_factor(matrix)
    assert result.dtype == torch.float32
    assert result.is_contiguous()
    frame = matrix if shape[0] >= shape[1] else matrix.mT
    found = {"zolotarev": zolotarev_polar_factor(frame), "newton": newton_polar_factor(frame), "chosen": result}
    assert (found["zolotarev"] is not None) == (condition < 3.5e4)
    assert found["newton"] is not None
    for factor in found.values():
        if factor is not None:
            error = (factor if factor.shape == expected.shape else factor.mT) - expected
            assert error.norm() / expected.norm() < 1e-6
            assert error.abs().max() < 1e-6
    if condition == 1e4:
        assert (from_singular_vectors(matrix) - expected).norm() / expected.norm() > 1e-5, "single precision cannot"


@pytest.mark.parametrize("smallest", [5e-5, 1e-3, 0.4])
@pytest.mark.parametrize("poles", [1, 2, 3])
def test_zolotarev_functions_are_the_best_ones(poles: int, smallest: float) -> None:
    """Against mpmath; and, as best approximations do, they swing between their bounds 2r + 2 times."""
    function = zolotarev(poles, smallest)
    with mpmath.workdps(30):
        modulus = 1 - mpmath.mpf(smallest) ** 2
        points = [i * mpmath.ellipk(modulus) / (2 * poles + 1) for i in range(1, 2 * poles + 1)]
        sc = [mpmath.ellipfun("sn", u, m=modulus) / mpmath.ellipfun("cn", u, m=modulus) for u in points]
        c = [(mpmath.mpf(smallest) * value) ** 2 for value in sc]

        def product(x: float) -> mpmath.mpf:
            return x * mpmath.fprod((x**2 + c[2 * j + 1]) / (x**2 + c[2 * j]) for j in range(poles))

        grid = torch.logspace(math.log10(smallest), 0, 4001, dtype=torch.float64).tolist()
        for x in grid[::100]:
            assert function(x) == pytest.approx(float(product(x) / product(1.0)), rel=1e-7)
    values = torch.tensor([function(x) for x in grid], dtype=torch.float64)
    low, high = values.min(), values.max()
    assert float(high) == pytest.approx(1, abs=1e-7)
    relative = ((values - low) / (high - low)).tolist()
    at_bound = [value > 0.5 for value in relative if not 1e-2 < value < 1 - 1e-2]
    swings = 1 + sum(first != second for first, second in itertools.pairwise(at_bound))
    assert swings == 2 * poles + 2
    if poles == 1:
        a, b, pole = halley_weights(smallest)
        x = 0.7
        assert function(x) == pytest.approx(x * (a + b * x**2) / (1 + pole * x**2), rel=1e-7)


def test_a_stretched_function_is_the_same_of_a_smaller_number() -> None:
    function = zolotarev(2, 1e-3)
    for stretched in (function.stretched(7.0), function.stretched(3.0).stretched(7.0)):
        assert stretched.largest == 7.0
        assert [stretched(7.0 * x) for x in (1e-3, 0.1, 1.0)] == pytest.approx([function(x) for x in (1e-3, 0.1, 1.0)])


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


@pytest.mark.parametrize("entry", [0.0, torch.nan, torch.inf])
def test_zolotarev_gives_up_where_there_is_no_factor(entry: float) -> None:
    assert zolotarev_polar_factor(torch.full((300, 260), entry)) is None
    deficient = conditioned(300, 260, 1e3).float()
    deficient[:, 0] = deficient[:, 1]
    assert zolotarev_polar_factor(deficient) is None


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


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_derivatives_pass(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    matrix = gaussian(*shape, dtype=dtype).requires_grad_()
    assert torch.autograd.gradcheck(polar_factor, matrix)
    assert torch.autograd.gradgradcheck(polar_factor, matrix)
    large = gaussian(260, 256, dtype=torch.float32).requires_grad_()
    assert polar_factor(large).requires_grad


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("values", [(1, 1, 1), (2, 2, 1), (3, 1, 1)], ids=str)
def test_equal_singular_values_do_not_stop_a_derivative(values: tuple[int, ...], dtype: torch.dtype) -> None:
    """Where a polar factor is smooth and the singular vectors are not; with only ones, on the Stiefel manifold."""
    for rows in (3, 5):
        left, right = (torch.linalg.qr(gaussian(size, 3, dtype=dtype, seed=size)).Q for size in (rows, 3))
        matrix = (left * torch.tensor(values)) @ right.mH
        assert torch.autograd.gradcheck(polar_factor, matrix.requires_grad_())
        assert torch.autograd.gradcheck(polar_factor, matrix.mT.detach().requires_grad_())


@pytest.mark.parametrize("size", [3, 300])
def test_at_the_identity_a_gradient_is_its_skew_part(size: int) -> None:
    matrix, gradient = torch.eye(size).requires_grad_(), gaussian(size, size, dtype=torch.float32)
    polar_factor(matrix).backward(gradient)
    torch.testing.assert_close(matrix.grad, (gradient - gradient.mT) / 2)


def test_exact_products_have_twice_the_digits() -> None:
    left, right = conditioned(9, 9, 1e3), conditioned(9, 9, 1e8, seed=3)
    rest = 1e-18 * gaussian(9, 9, seed=4)
    head, tail = exact_product(left, right, rest)
    with mpmath.workdps(60):
        matrices = [mpmath.matrix(tensor.tolist()) for tensor in (left, right, rest, head, tail)]
        error = matrices[0] * (matrices[1] + matrices[2]) - matrices[3] - matrices[4]
        assert max(abs(entry) for entry in error) < 1e-22
        plain = matrices[0] * (matrices[1] + matrices[2]) - mpmath.matrix((left @ right).tolist())
        assert max(abs(entry) for entry in plain) > 1e-18, "plain products do not"
    assert torch.equal(leading_bits(left) * 2**26, (leading_bits(left) * 2**26).round())
    exponents = torch.tensor([-1022, -200, 0, 3, 1023])
    assert power_of_two(exponents).tolist() == [2.0**exponent for exponent in exponents.tolist()]


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


def test_singular_vectors_whose_roundings_add_up_cost_newton_one_digit() -> None:
    """A Hadamard matrix: every entry is rounded the same way, and a power iteration from equal entries sees nothing."""
    hadamard = torch.ones(1, 1, dtype=torch.float64)
    while len(hadamard) < 256:
        hadamard = torch.cat([torch.cat([hadamard, hadamard], 1), torch.cat([hadamard, -hadamard], 1)])
    hadamard /= 16
    for values in (1e4 ** -torch.linspace(0, 1, 256), torch.ones(256).index_fill(0, torch.tensor([255]), 1e-3)):
        matrix = ((hadamard * values.double()) @ hadamard.mT).float()
        expected = polar_factor(matrix.double())
        by_newton = newton_polar_factor(matrix)
        assert by_newton is not None
        assert (by_newton - expected).abs().max() < 1e-5
        assert (polar_factor(matrix) - expected).abs().max() < 1e-6


def test_a_thousand_rows_on_two_cores_are_exact() -> None:
    """Where products are made by one core a part."""
    matrix = conditioned(1100, 1024, 1e4).float()
    expected = from_singular_vectors(matrix.double())
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        result = polar_factor(matrix)
    finally:
        torch.set_num_threads(threads)
    assert (result - expected).norm() / expected.norm() < 1e-6
    assert (result - expected).abs().max() < 1e-6


def test_inference_mode_holds_in_every_thread() -> None:
    matrix = conditioned(1024, 1024, 100).float()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for size in (300, 512, 1024):
            part = matrix[:, :size].contiguous()
            with torch.inference_mode():
                result = polar_factor(part)
            assert result.is_inference()
            torch.testing.assert_close(result, polar_factor(part), rtol=0, atol=1e-6)
    finally:
        torch.set_num_threads(threads)
