"""Products by either library are the same but for rounding, and which it is does not show."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import onednn, rough_products
from orthoscope.linalg.onednn import onednn_product, suits
from orthoscope.linalg.orthogonalize import orthogonalize
from orthoscope.linalg.polar import polar_factor
from orthoscope.linalg.rough_products import (
    add_rough_product_,
    rough_hermitian_product,
    rough_inverse,
    rough_product,
    sum_with_rough_product,
)

needs_onednn = pytest.mark.usefixtures("by_onednn")


@pytest.fixture
def by_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it is faster: every torch for a CPU that these tests run on has it."""
    monkeypatch.setattr(onednn, "_is_much_faster", lambda: True)


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes that oneDNN has multiplied."""
    seen: list[tuple[int, ...]] = []

    def counted(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
        seen.append((*left.shape, right.shape[-1]))
        return onednn_product(left, right, out)

    monkeypatch.setattr(rough_products, "onednn_product", counted)
    return seen


@contextmanager
def switched_off() -> Iterator[None]:
    """As `torch.backends.mkldnn.flags(enabled=False)`, which warns of another switch."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def exact(left: Tensor, right: Tensor) -> Tensor:
    return (left.double() @ right.double()).float()


LAYOUTS = {
    "rows": lambda matrix: matrix,
    "columns": lambda matrix: matrix.mT.contiguous().mT,
    "part of a larger one": lambda matrix: torch.nn.functional.pad(matrix, (3, 5, 2, 1))[2:-1, 3:-5],
    "part of a larger one, by columns": lambda matrix: torch.nn.functional.pad(matrix.mT, (3, 5, 2, 1))[2:-1, 3:-5].mT,
    "every other row": lambda matrix: matrix.repeat_interleave(2, 0)[::2],
}


@pytest.fixture
def second_factors(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What oneDNN was given, transposed, to multiply by."""
    seen: list[Tensor] = []

    def noted(left: Tensor, weight: Tensor, *rest: object) -> Tensor:
        seen.append(weight)
        return left @ weight.mT

    monkeypatch.setattr(onednn.torch.ops.mkldnn, "_linear_pointwise", noted)
    return seen


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_any_layout_is_multiplied(left: str, right: str) -> None:
    one, other = gaussian(130, 200), gaussian(200, 150, seed=1)
    place = torch.empty(130, 150)
    assert onednn_product(LAYOUTS[left](one), LAYOUTS[right](other), place) is place
    torch.testing.assert_close(place, exact(one, other), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("right", LAYOUTS)
@pytest.mark.parametrize("left", LAYOUTS)
def test_what_is_multiplied_by_is_dense(left: str, right: str, second_factors: list[Tensor]) -> None:
    """Else a product is right too, and takes a thousand times as long."""
    onednn_product(LAYOUTS[left](gaussian(130, 200)), LAYOUTS[right](gaussian(200, 150)))
    (factor,) = second_factors
    assert factor.is_contiguous() or factor.mT.is_contiguous()


def test_a_tall_factor_by_columns_is_not_copied(second_factors: list[Tensor]) -> None:
    tall, square = gaussian(150, 600).mT, gaussian(150, 150)
    onednn_product(tall, square)
    assert second_factors[0].data_ptr() == tall.data_ptr()


def test_the_rounding_is_not_more_than_three_times_that_of_the_other_library() -> None:
    left, right = gaussian(200, 2000), gaussian(2000, 200, seed=1)
    errors = [
        (found.double() - left.double() @ right.double()).norm()
        for found in (onednn_product(left, right), left @ right)
    ]
    assert errors[0] < 3 * errors[1]


@needs_onednn
def test_products_and_sums_are_the_plain_ones(products: list[tuple[int, ...]]) -> None:
    left, right, addend = gaussian(300, 260), gaussian(260, 280, seed=1), gaussian(300, 280, seed=2)
    expected = exact(left, right)
    close = {"rtol": 1e-4, "atol": 1e-4}
    place = torch.empty_like(addend)
    torch.testing.assert_close(rough_product(left, right), expected, **close)
    assert rough_product(left, right, out=place) is place
    torch.testing.assert_close(place, expected, **close)
    for target in (addend.clone(), addend.mT.contiguous().mT):
        torch.testing.assert_close(add_rough_product_(target, left, right, 0.5), addend + expected / 2, **close)
    assert sum_with_rough_product(addend, left, right, place, alpha=-2.0, beta=0.5) is place
    torch.testing.assert_close(place, addend / 2 - 2 * expected, **close)
    assert products == [(300, 260, 280)] * 5


@needs_onednn
def test_what_is_small_or_not_in_single_precision_or_followed_is_torch_s(products: list[tuple[int, ...]]) -> None:
    large = gaussian(200, 200)
    rough_product(gaussian(127, 200), large)
    rough_product(large.double(), large.double())
    rough_product(gaussian(3, 200, 200), gaussian(3, 200, 200))
    rough_product(large, gaussian(3, 200, 200))
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        rough_product(large, gaussian(201, 200))
    assert not suits(large.bfloat16(), large.bfloat16())
    assert not suits(large, large[0])
    tracked = large.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(rough_product(tracked, large).sum(), tracked)
    torch.testing.assert_close(gradient, large.sum(1).expand(200, 200), rtol=1e-4, atol=1e-4)
    with switched_off():
        rough_product(large, large)
    assert products == []
    rough_product(large, large)
    assert products == [(200, 200, 200)]


def test_where_it_is_not_faster_it_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, products: list[tuple[int, ...]]
) -> None:
    monkeypatch.setattr(onednn, "_is_much_faster", lambda: False)
    rough_product(gaussian(200, 200), gaussian(200, 200))
    rough_hermitian_product(gaussian(200, 200).mT, gaussian(200, 200))
    rough_inverse(torch.eye(200), condition=1.0)
    assert products == []


ZEN_5 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nflags\t\t: fpu avx2 avx512f avx512_bf16\n\n"


@pytest.mark.parametrize(
    ("change", "wide"),
    [
        (("", ""), True),
        (("family\t: 26", "family\t: 25"), False),
        (("AuthenticAMD", "GenuineIntel"), False),
        (("avx512f ", ""), False),
        (("cpu family\t: 26\n", ""), False),
    ],
    ids=["Zen 5", "Zen 4", "Intel", "without the instructions", "unknown"],
)
def test_the_processor_decides(change: tuple[str, str], wide: bool) -> None:
    described = ZEN_5.replace(*change)
    assert onednn.has_wide_units_of_amd(described + ZEN_5) == wide, "by the first one"
    assert not onednn.has_wide_units_of_amd("")


@needs_onednn
@pytest.mark.parametrize("shape", [(300, 200), (700, 512), (1100, 1030)], ids=str)
def test_hermitian_products_are_the_plain_ones(shape: tuple[int, int], products: list[tuple[int, ...]]) -> None:
    frame = gaussian(*shape) / shape[0] ** 0.5
    gram = rough_hermitian_product(frame.mT, frame)
    torch.testing.assert_close(gram, exact(frame.mT, frame), rtol=1e-4, atol=1e-5)
    place = torch.full_like(gram, torch.nan)
    assert rough_hermitian_product(gram, gram, out=place) is place
    torch.testing.assert_close(place, exact(gram, gram), rtol=1e-4, atol=1e-5)
    assert len(products) == (2 if shape[1] <= 512 else 4), "strips; the last is too small"


@needs_onednn
@pytest.mark.parametrize("condition", [10.0, 3e4])
@pytest.mark.parametrize("size", [130, 512, 1030])
def test_inverses_are_as_accurate_as_a_factorisation(
    size: int, condition: float, products: list[tuple[int, ...]]
) -> None:
    basis = torch.linalg.qr(gaussian(size, size, dtype=torch.float64)).Q
    values = torch.logspace(0, -torch.tensor(condition).log10(), size, dtype=torch.float64)
    matrix = ((basis * values) @ basis.mT).float()
    matrix = (matrix + matrix.mT) / 2
    plain = torch.cholesky_inverse(torch.linalg.cholesky(matrix)).double()
    inverse = rough_inverse(matrix.clone(), condition).double()
    expected = torch.linalg.inv(matrix.double())
    assert (inverse - expected).norm() < 3 * (plain - expected).norm()
    assert products or size < 256
    torch.testing.assert_close(inverse, inverse.mT, rtol=1e-4, atol=1e-5 * condition)


@needs_onednn
@pytest.mark.parametrize("kind", ["ones", "Hadamard"])
def test_the_error_of_an_inverse_is_at_most_the_condition_number_times_a_rounding(kind: str) -> None:
    """Where roundings add up: of one large value, whose vector has entries of one size."""
    size, c = 512, 16000.0
    vector = torch.ones(size) if kind == "ones" else torch.tensor([(-1.0) ** i.bit_count() for i in range(size)])
    matrix = torch.outer(vector, vector) * (c / size)
    matrix.diagonal().add_(1)
    expected = torch.linalg.inv(matrix.double())
    error = (rough_inverse(matrix.clone(), 1 + c).double() - expected).norm() / expected.norm()
    assert error < c * torch.finfo(torch.float32).eps


@needs_onednn
@pytest.mark.parametrize("condition", [10.0, 1e6])
def test_nan_gives_nan_and_does_not_raise(condition: float) -> None:
    for place in (0, 299):
        matrix = torch.eye(300)
        matrix[place, place] = torch.nan
        assert bool(rough_inverse(matrix, condition).isnan().any())


@needs_onednn
@pytest.mark.parametrize("shape", [(512, 512), (1100, 1024), (300, 600)], ids=str)
def test_orthogonalised_matrices_are_those_of_the_other_library(shape: tuple[int, int]) -> None:
    matrix = gaussian(*shape)
    limits = {"rational": 1e-3, "keller": 1e-3, "exact": 1e-6}
    for method, limit in limits.items():
        with switched_off():
            expected = orthogonalize(matrix, method)
        assert (orthogonalize(matrix, method) - expected).abs().max() < limit
    assert suits(matrix, matrix.mT)


@needs_onednn
@pytest.mark.parametrize("condition", [1e1, 1e4, 3e4, 1e6])
@pytest.mark.parametrize("size", [300, 1024])
def test_exact_polar_factors_stay_within_1e_6(size: int, condition: float, products: list[tuple[int, ...]]) -> None:
    left, right = (torch.linalg.qr(gaussian(size, size, seed=seed, dtype=torch.float64)).Q for seed in (0, 1))
    values = torch.logspace(0, -torch.tensor(condition).log10(), size, dtype=torch.float64)
    matrix = ((left * values) @ right).float()
    error = polar_factor(matrix).double() - polar_factor(matrix.double())
    assert error.norm() / size**0.5 < 1e-6
    assert error.abs().max() < 1e-6
    assert products


@needs_onednn
def test_matrices_of_a_stack_are_multiplied_one_by_one_where_they_are_large(products: list[tuple[int, ...]]) -> None:
    for size, expected in ((128, []), (200, [(200, 200, 200)] * 2 * 15)):
        products.clear()
        orthogonalize(gaussian(2, size, size), "keller")
        assert products == expected
