"""Each method does to singular values what it says, to any matrix, however small, large or broken."""

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from orthoscope.linalg._rational import halley_weights
from orthoscope.linalg.orthogonalize import (
    METHODS,
    _compute_dtype,
    chosen_method,
    orthogonalize,
    orthogonalized_values,
    polynomial_schedule,
)

POLYNOMIAL = ["keller", "polar_express", "cans", "cubic"]
ITERATED = ["rational", *POLYNOMIAL]


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def with_values(values: Tensor, rows: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix (rows, n) with these singular values, and its singular vectors."""
    left = torch.linalg.qr(gaussian(rows, len(values), seed=seed)).Q
    right = torch.linalg.qr(gaussian(len(values), len(values), seed=seed + 1)).Q
    return (left * values) @ right.mT, left, right


def spectrum(name: str, size: int) -> Tensor:
    index = torch.arange(1, size + 1, dtype=torch.float64)
    return {
        "power law 1/i": 1 / index,
        "condition 1e3": torch.logspace(0, -3, size, dtype=torch.float64),
        "half rank": (index <= size // 2).double(),
        "steep 1/i²": index**-2,
    }[name]


def norm_of(values: Tensor, method: str) -> Tensor:
    return values.pow(4).sum() ** 0.25 if METHODS[method].norm == "gram" else values.square().sum().sqrt()


@pytest.mark.parametrize("steps", [1, 2, 4, None])
@pytest.mark.parametrize("shape", [(12, 12), (20, 12), (12, 20)], ids=str)
@pytest.mark.parametrize("method", ITERATED)
def test_singular_vectors_stay_and_values_follow_the_scalar_map(
    method: str, shape: tuple[int, int], steps: int | None
) -> None:
    values = spectrum("power law 1/i", 12)
    matrix, left, right = with_values(values, max(shape))
    expected = (left * orthogonalized_values(values / norm_of(values, method), method, steps)) @ right.mT
    wide = shape[0] < shape[1]
    result = orthogonalize(matrix.mT if wide else matrix, method, steps)
    torch.testing.assert_close(result, expected.mT if wide else expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
def test_values_of_the_interval_end_in_the_image_and_reach_its_ends(method: str) -> None:
    record = METHODS[method]
    low, high = record.interval
    values = torch.logspace(torch.log10(torch.tensor(max(low, 1e-9))).item(), 0, 100_001, dtype=torch.float64)
    image = orthogonalized_values(values * high, method)
    assert record.image[0] <= image.min()
    assert image.max() <= record.image[1] + 1e-12
    # In double precision `rational` keeps 0.96; 0.93 is what single precision leaves, tested below.
    slack = 0.05 if method == "rational" else 0.02
    assert image.min() <= record.image[0] + slack
    assert image.max() >= record.image[1] - slack


def test_single_precision_keeps_the_rational_image_on_its_interval() -> None:
    """A value of 0.003 among ones would be divided by a larger norm: one large value makes room."""
    low = METHODS["rational"].interval[0]
    values = torch.cat([torch.ones(1), torch.full((40,), low), torch.linspace(low, 0.05, 23)]).double()
    values[1:] *= norm_of(values, "rational")
    matrix, _, _ = with_values(values.sort(descending=True).values, 64)
    result = torch.linalg.svdvals(orthogonalize(matrix.float(), "rational").double())
    assert result.min() >= METHODS["rational"].image[0]
    assert result.max() <= 1 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(128, 96), (640, 512), (1024, 1024)], ids=str)
@pytest.mark.parametrize("name", ["power law 1/i", "condition 1e3", "half rank"])
def test_rational_is_nearer_to_the_polar_factor_than_polar_express(name: str, shape: tuple[int, int]) -> None:
    values = spectrum(name, shape[1])
    matrix, left, right = with_values(values, shape[0])
    polar = (left * (values > 0)) @ right.mT
    errors = {
        method: (orthogonalize(matrix.float(), method) - polar).norm() for method in ("rational", "polar_express")
    }
    assert errors["rational"] < 0.7 * errors["polar_express"]


@pytest.mark.parametrize("method", ITERATED)
def test_rational_and_cubic_never_exceed_one_and_the_others_do(method: str) -> None:
    largest = max(
        float(torch.linalg.svdvals(orthogonalize(gaussian(60, 40, seed=seed).float(), method).double()).max())
        for seed in range(5)
    )
    assert (largest <= 1 + 1e-6) == (method in ("rational", "cubic"))


def test_all_but_exact_are_wrong_on_a_steep_spectrum() -> None:
    matrix, left, right = with_values(spectrum("steep 1/i²", 200), 200)
    errors = {
        method: ((orthogonalize(matrix, method) - left @ right.mT).norm() / 200**0.5).item() for method in METHODS
    }
    assert errors.pop("exact") < 1e-12
    assert min(errors.values()) > 0.7
    assert "1/i²" in METHODS["keller"].fails


def test_more_steps_of_a_convergent_method_reach_the_polar_factor() -> None:
    matrix, left, right = with_values(spectrum("power law 1/i", 20), 30)
    for method, steps in (("polar_express", 9), ("cans", 9), ("cubic", 30), ("rational", 5)):
        torch.testing.assert_close(orthogonalize(matrix, method, steps), left @ right.mT, rtol=0, atol=1e-9)
    assert (orthogonalize(matrix, "keller", 30) - left @ right.mT).norm() > 0.1  # it does not settle


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_scale_does_not_matter_and_non_finite_matrices_do_not_affect_others(method: str, dtype: torch.dtype) -> None:
    plain = gaussian(9, 6, 4, dtype=dtype)
    tiny = torch.finfo(dtype).tiny
    batch = plain.clone()
    batch[0] = 0
    batch[1, 2, 3], batch[2, 0, 0], batch[3, 5, 1] = torch.nan, torch.inf, -torch.inf
    batch[4] *= 1e-30 if dtype == torch.float32 else 1e-250
    batch[5] *= 1e30 if dtype == torch.float32 else 1e250
    batch[6] *= tiny * 1e-3
    result, expected = orthogonalize(batch, method), orthogonalize(plain, method)
    assert bool((result[0] == 0).all())
    assert bool(result[1:4].isnan().all())
    torch.testing.assert_close(result[[4, 5, 7, 8]], expected[[4, 5, 7, 8]], rtol=0, atol=1e-4)
    torch.testing.assert_close(result[6], expected[6], rtol=0, atol=2e-2)  # denormal numbers have few digits
    for index in (4, 5, 6, 7, 8):
        torch.testing.assert_close(result[index], orthogonalize(batch[index], method), rtol=0, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_rank_deficient_matrices_stay_bounded(method: str) -> None:
    matrix = gaussian(30, 5) @ gaussian(5, 20, seed=1)
    values = torch.linalg.svdvals(orthogonalize(matrix.float(), method).double())
    low, high = METHODS[method].image
    assert values[:5].min() > low - 0.01
    assert values[0] < high + 0.01
    assert values[5] < 0.05 or method == "exact"


@pytest.mark.parametrize("shape", [(3, 4, 5, 7), (90, 32, 32), (2, 300, 260), (2, 0, 3), (0, 3, 3), (2, 1, 1)], ids=str)
def test_stacks_are_treated_matrix_by_matrix_and_never_changed(shape: tuple[int, ...]) -> None:
    batch = gaussian(*shape, dtype=torch.float32)
    before = batch.clone()
    result = orthogonalize(batch)
    assert result.shape == batch.shape
    assert result.dtype == batch.dtype
    assert result.is_contiguous()
    assert torch.equal(batch, before)
    flat, expected = result.flatten(end_dim=-3), batch.flatten(end_dim=-3)
    for index in range(0, len(flat), 37):
        torch.testing.assert_close(flat[index], orthogonalize(expected[index]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_layout_and_gradients_of_the_input_do_not_matter(method: str) -> None:
    matrix = gaussian(8, 12, dtype=torch.float32)
    expected = orthogonalize(matrix, method)
    strided = torch.zeros(16, 24)[::2, ::2].copy_(matrix)
    for same in (strided, matrix.mT.contiguous().mT, matrix.clone().requires_grad_()):
        result = orthogonalize(same, method)
        assert not result.requires_grad
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def test_the_type_of_the_computation_is_an_argument_and_that_of_the_result_is_not() -> None:
    matrix = gaussian(16, 16)
    exact = orthogonalize(matrix, "keller")
    for dtype, error in ((torch.float32, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.02)):
        result = orthogonalize(matrix, "keller", dtype=dtype)
        assert result.dtype == torch.float64
        assert 1e-3 * error < (result - exact).abs().max() < error
    half = orthogonalize(matrix.bfloat16(), "keller")
    assert half.dtype == torch.bfloat16
    assert torch.equal(half, orthogonalize(matrix.bfloat16().float(), "keller").bfloat16())
    # Half precision cannot hold the square of the norm, but the scaling is done before.
    assert bool(orthogonalize(matrix * 1e4, "keller", dtype=torch.float16).isfinite().all())


def test_autocast_does_not_lower_the_precision() -> None:
    matrix = gaussian(16, 16, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = orthogonalize(matrix, "keller")
    assert torch.equal(result, orthogonalize(matrix, "keller"))


def test_auto_is_the_method_it_names() -> None:
    large, small = gaussian(256, 300, dtype=torch.float32), gaussian(64, 300, dtype=torch.float32)
    assert (chosen_method(large), chosen_method(small)) == ("rational", "polar_express")
    assert chosen_method(large, torch.bfloat16) == chosen_method(large.to("meta")) == "polar_express"
    assert chosen_method(large.bfloat16()) == "rational", "on a CPU half precision is computed in float32"
    for matrix in (large, small):
        assert torch.equal(orthogonalize(matrix), orthogonalize(matrix, chosen_method(matrix)))


def test_half_precision_stays_half_precision_on_an_accelerator_only() -> None:
    half = gaussian(8, 8).bfloat16()
    for method, on_accelerator in (("polar_express", torch.bfloat16), ("rational", torch.float32)):
        assert _compute_dtype(half.to("meta"), method, None) == on_accelerator
        assert _compute_dtype(half, method, None) == torch.float32
        assert _compute_dtype(half.double(), method, None) == torch.float64
        assert _compute_dtype(half, method, torch.float64) == torch.float64
    assert orthogonalize(half.to("meta")).dtype == torch.bfloat16


def test_halley_weights_are_the_best_of_their_kind() -> None:
    """The image of [l, 1] under x(a + bx²)/(1 + cx²) touches 1 inside and at 1, and its least value is that at l."""
    for smallest in (1e-6, 1e-3, 0.1, 0.9):
        a, b, c = halley_weights(smallest)
        x = torch.logspace(torch.log10(torch.tensor(smallest)).item(), 0, 200_001, dtype=torch.float64)
        values = x * (a + b * x**2) / (1 + c * x**2)
        assert values[-1].item() == pytest.approx(1, abs=1e-12)
        assert values[:-20000].max().item() == pytest.approx(1, abs=1e-5 if smallest < 0.5 else 1e-2)
        assert values.min().item() == pytest.approx(values[0].item(), abs=1e-12)
        assert values.max() <= 1 + 1e-12


def test_schedules_begin_as_published_and_end_in_repetition() -> None:
    assert polynomial_schedule("keller", 3) == ((3.4445, -4.7750, 2.0315),) * 3
    assert polynomial_schedule("cans", 8)[4:] == ((2.2737, -1.6447, 0.4162),) + ((1.875, -1.25, 0.375),) * 3
    express = polynomial_schedule("polar_express", 12)
    assert len(express) == 12
    assert express[7:] == ((1.875, -1.25, 0.375),) * 5
    assert express[0][0] * 1.01 == pytest.approx(8.28721201814563)


def test_mistakes_are_refused_with_a_remedy() -> None:
    matrix = gaussian(4, 4)
    with pytest.raises(ValueError, match=r"methods are rational, keller, .* got 'newton'"):
        orthogonalize(matrix, "newton")
    with pytest.raises(ValueError, match=r"at least 1 step, got 0"):
        orthogonalize(matrix, "keller", 0)
    with pytest.raises(ValueError, match=r"got shape \(4,\): reshape it"):
        orthogonalize(matrix[0])
    with pytest.raises(TypeError, match=r"got torch.complex128: polar_factor takes complex ones"):
        orthogonalize(matrix.to(torch.complex128))
    with pytest.raises(TypeError, match=r"'rational' needs float32 or float64, got dtype=torch.bfloat16"):
        orthogonalize(matrix, "rational", dtype=torch.bfloat16)
    with pytest.raises(TypeError, match=r"got dtype=torch.int32: use torch.float32"):
        orthogonalize(matrix, dtype=torch.int32)


def test_methods_that_diverge_in_half_precision_refuse_it() -> None:
    matrix = torch.randn(16, 16, generator=torch.Generator().manual_seed(6))
    for method in ("rational", "exact", "cans"):
        with pytest.raises(TypeError, match=r"needs float32 or float64, got dtype=torch.bfloat16: polar_express"):
            orthogonalize(matrix, method, dtype=torch.bfloat16)
    for method in ("keller", "polar_express", "cubic"):
        values = torch.linalg.svdvals(orthogonalize(matrix, method, dtype=torch.bfloat16))
        assert float(values.max()) < 1.3


@pytest.mark.parametrize("method", [*METHODS, "auto"])
@pytest.mark.parametrize("shape", [(300, 260), (260, 300), (3, 40, 20), (20, 40)], ids=str)
def test_the_result_is_laid_out_by_rows(method: str, shape: tuple[int, ...]) -> None:
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    for matrix in (rows, rows.mT.contiguous().mT):
        assert orthogonalize(matrix, method).is_contiguous()


@pytest.mark.parametrize("shape", [(2, 3, 12, 8), (2, 40, 80, 80)], ids=["one part", "several parts"])
def test_a_batch_of_vmap_is_a_batch(shape: tuple[int, ...]) -> None:
    batch = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    result = torch.vmap(lambda stack: orthogonalize(stack, "keller"))(batch)
    torch.testing.assert_close(result, orthogonalize(batch, "keller"), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, where forward mode is loaded
@pytest.mark.parametrize("method", [name for name in METHODS if name != "exact"])
def test_it_can_be_traced_and_called_within_a_derivative(method: str) -> None:
    """Which it has none of: as a value it must come out all the same."""
    matrix = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))
    expected = orthogonalize(matrix, method)
    value, _ = torch.func.jvp(lambda x: orthogonalize(x, method), (matrix,), (torch.ones_like(matrix),))
    torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)
    for mode in ("real", "fake"):
        traced = make_fx(lambda x: orthogonalize(x, method), tracing_mode=mode)(matrix)
        torch.testing.assert_close(traced(matrix), expected, rtol=1e-4, atol=1e-4)
