"""Penalties of one weight: their values, their gradients of both orders, and where they vanish."""

import functools
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from orthoscope import metrics
from orthoscope.layers import penalties
from orthoscope.layers.penalties import spectral_direction
from orthoscope.linalg import haar
from references import slow_twins

SHAPES = [(4, 7), (7, 4), (5, 5), (1, 3)]
CONVERGED = functools.partial(penalties.srip, steps=200)
PENALTIES: dict[str, Callable[[Tensor], Tensor]] = {
    "soft": penalties.soft_orthogonality,
    "soft, squared": functools.partial(penalties.soft_orthogonality, squared=True),
    "soft, no floor": functools.partial(penalties.soft_orthogonality, remove_floor=True),
    "double": penalties.double_sided_orthogonality,
    "double, squared": functools.partial(penalties.double_sided_orthogonality, squared=True),
    "double, no floor": functools.partial(penalties.double_sided_orthogonality, remove_floor=True),
    "srip": CONVERGED,
    "srip, squared": functools.partial(CONVERGED, squared=True),
    "coherence": penalties.mutual_coherence,
}
everyone = pytest.mark.parametrize("name", PENALTIES)


def sample(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def definition(name: str, weight: Tensor) -> float:
    """By loops; the floors are those of the docstrings."""
    rows, columns = weight.shape
    one, other = slow_twins.soft_orthogonality(weight), slow_twins.soft_orthogonality(weight.mT)
    fewer = weight if rows <= columns else weight.mT
    return {
        "soft": one,
        "soft, squared": one**2,
        "soft, no floor": one - max(0, columns - rows) ** 0.5,
        "double": one + other,
        "double, squared": one**2 + other**2,
        "double, no floor": one + other - abs(columns - rows) ** 0.5,
        "srip": slow_twins.spectral_deviation(weight),
        "srip, squared": slow_twins.spectral_deviation(weight) ** 2,
        "coherence": slow_twins.mutual_coherence(fewer),
    }[name]


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-11), (torch.float32, 2e-6)])
@pytest.mark.parametrize("shape", SHAPES)
@everyone
def test_penalty_is_its_definition(name: str, shape: tuple[int, int], dtype: torch.dtype, tolerance: float) -> None:
    weight = sample(*shape, dtype=dtype)
    value = PENALTIES[name](weight)
    assert value.dtype is dtype
    assert float(value) == pytest.approx(definition(name, weight), rel=tolerance, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (3, 3), (2, 2, 3)])
@everyone
def test_first_and_second_derivatives_are_right(name: str, shape: tuple[int, ...]) -> None:
    weight = sample(*shape).requires_grad_()
    assert torch.autograd.gradcheck(PENALTIES[name], (weight,))
    assert torch.autograd.gradgradcheck(PENALTIES[name], (weight,))


@everyone
def test_torch_func_sees_the_same_function(name: str) -> None:
    stack = sample(3, 4, 6)
    penalty = PENALTIES[name]
    one_by_one = torch.stack([penalty(weight) for weight in stack])
    torch.testing.assert_close(penalty(stack), one_by_one)
    torch.testing.assert_close(torch.func.vmap(penalty)(stack), one_by_one)
    gradients = torch.func.vmap(torch.func.grad(penalty))(stack)
    leaf = stack.clone().requires_grad_()
    penalty(leaf).sum().backward()
    assert leaf.grad is not None
    # The iterated eigenvector and the exact one differ by rounding over the distance of two eigenvalues.
    torch.testing.assert_close(gradients, leaf.grad, rtol=1e-6, atol=1e-6)


COMPILED = """
import torch
from orthoscope.layers import penalties
weight = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
for name in ("soft_orthogonality", "double_sided_orthogonality", "srip", "mutual_coherence"):
    penalty = getattr(penalties, name)
    (compiled,) = torch.autograd.grad(torch.compile(penalty, backend="aot_eager", fullgraph=True)(weight), weight)
    (expected,) = torch.autograd.grad(penalty(weight), weight)
    torch.testing.assert_close(compiled, expected)
    print(name)
"""


@pytest.mark.slow
def test_penalties_compile_in_one_piece() -> None:
    """In a process of its own: the type checker of the tests cannot be traced."""
    printed = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, check=True).stdout
    assert len(printed.split()) == 4


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
@everyone
def test_gradient_of_an_orthonormal_weight_is_zero_and_never_nan(name: str, shape: tuple[int, int]) -> None:
    weight = torch.eye(*shape, dtype=torch.float64, requires_grad=True)
    value = PENALTIES[name](weight)
    value.backward()
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.zeros_like(weight))
    assert value.item() == pytest.approx(definition(name, weight.detach()), abs=1e-12)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
@pytest.mark.parametrize("name", ["soft, no floor", "double, no floor", "srip", "coherence"])
def test_penalty_without_floor_vanishes_only_for_orthonormal_weights(name: str, shape: tuple[int, int]) -> None:
    frame = haar(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float(PENALTIES[name](frame)) == pytest.approx(0, abs=1e-12)
    assert float(PENALTIES[name](frame + 0.05)) > 0.01
    if name != "coherence":  # which ignores lengths
        assert float(PENALTIES[name](1.1 * frame)) > 0.01


def test_removing_the_floor_cancels_no_digits() -> None:
    """A thousandth off orthonormal in float32, with a floor of 60: a difference of roots would keep two digits."""
    weight = (1.001 * haar(8, 3608, generator=torch.Generator().manual_seed(0), dtype=torch.float64)).float()
    exact = float(metrics.soft_orthogonality(weight, remove_floor=True))
    assert float(penalties.soft_orthogonality(weight, remove_floor=True)) == pytest.approx(exact, rel=1e-3)
    difference = float(penalties.soft_orthogonality(weight) - torch.tensor(3600.0).sqrt())
    assert difference != pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("shape", [(3, 4), (4, 3)])
@everyone
def test_nan_in_is_nan_out(name: str, shape: tuple[int, int]) -> None:
    weight = sample(*shape)
    weight[1, 2] = torch.nan
    assert PENALTIES[name](weight).isnan()


@everyone
def test_an_empty_batch_has_no_penalties(name: str) -> None:
    weight = torch.empty(0, 3, 4, requires_grad=True)
    value = PENALTIES[name](weight)
    assert value.shape == (0,)
    value.sum().backward()
    assert weight.grad is not None


@everyone
def test_half_precision_is_computed_in_float32_also_under_autocast(name: str) -> None:
    weight = sample(6, 9, dtype=torch.bfloat16)
    expected = PENALTIES[name](weight.float())
    assert torch.equal(PENALTIES[name](weight), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(PENALTIES[name](weight.float()), expected)


@everyone
def test_whole_numbers_have_no_gradient_and_are_refused(name: str) -> None:
    with pytest.raises(Exception, match=r"float|Float"):  # TypeError, or the type checker's while tests run
        PENALTIES[name](torch.ones(2, 2, dtype=torch.int64))


def test_srip_grows_with_its_steps_up_to_the_spectral_norm() -> None:
    weight = sample(20, 60) / 7
    exact = float(metrics.spectral_deviation(weight))
    values = [float(penalties.srip(weight, steps=steps)) for steps in (1, 2, 5, 20, 400)]
    assert values == sorted(values)
    assert values[0] < 0.9 * exact
    assert values[-1] == pytest.approx(exact, rel=1e-9)
    assert values[1] == float(penalties.srip(weight)), "the same at every call"


def test_srip_finds_the_shortest_direction_too() -> None:
    weight = torch.diag(torch.tensor([0.1, 1.0, 1.2], dtype=torch.float64))
    assert float(CONVERGED(weight)) == pytest.approx(0.99)
    # Eigenvalues of opposite sign and equal size have no leading direction, but still a norm.
    tied = torch.diag(torch.tensor([0.5, 1.5], dtype=torch.float64).sqrt())
    assert float(penalties.srip(tied)) == pytest.approx(0.5)


def published_srip(weight: Tensor, start: Tensor) -> Tensor:
    """Bansal et al. (2018) as their code has it, before squaring: the Gram matrix of the columns, two steps."""
    deviation = weight.mT @ weight - torch.eye(weight.shape[1], dtype=weight.dtype)
    right = torch.nn.functional.normalize(deviation @ start, dim=0)
    left = torch.nn.functional.normalize(deviation @ right, dim=0)
    return torch.dot(left, deviation @ right)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-9)])
def test_srip_is_the_published_one_where_that_has_converged(dtype: torch.dtype, tolerance: float) -> None:
    weight = (sample(40, 120) / 5).to(dtype).requires_grad_()
    direction = spectral_direction(weight.detach().double(), 3000)
    ours = penalties.srip(weight, start=direction)
    theirs = published_srip(weight, (weight.detach().double().mT @ direction).to(dtype))
    gradient, expected = (torch.autograd.grad(value, weight)[0] for value in (ours, theirs))
    assert ours.item() == pytest.approx(theirs.item(), rel=tolerance)
    assert float((gradient - expected).norm() / expected.norm()) < tolerance


def test_the_published_srip_cannot_vanish_for_fewer_rows_than_columns_and_this_one_can() -> None:
    frame = haar(4, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float(penalties.srip(frame)) < 1e-14
    assert float(published_srip(frame, sample(9))) == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e18, 1e25, 1e35])
def test_srip_of_entries_of_any_size_is_right_as_long_as_it_can_be_held(scale: float) -> None:
    """Beyond, the value is infinite, and the gradient, of the size of the weight, still right."""
    single = (sample(6, 4, dtype=torch.float32) * scale).requires_grad_()
    double = single.detach().double().requires_grad_()
    values = [CONVERGED(single), CONVERGED(double)]
    for value in values:
        value.backward()
    torch.testing.assert_close(values[0], values[1].float(), rtol=1e-5, atol=0)
    assert values[0].isinf().item() is (scale > 1e19)
    if scale > 1:
        torch.testing.assert_close(values[1].item(), slow_twins.spectral_deviation(double.detach()), rtol=1e-9, atol=0)
    assert single.grad is not None
    assert double.grad is not None
    assert single.grad.abs().max() > 0
    torch.testing.assert_close(single.grad, double.grad.float(), rtol=1e-5, atol=1e-5 * scale)


def test_srip_of_an_empty_weight_is_zero() -> None:
    assert penalties.srip(torch.zeros(3, 0)).item() == 0


def test_srip_says_what_start_it_takes() -> None:
    with pytest.raises(ValueError, match=r"has 6 entries, a weight of shape \(4, 6\) needs 4"):
        penalties.srip(sample(4, 6), start=sample(6))
    with pytest.raises(ValueError, match="at least one step, got steps=0"):
        penalties.srip(sample(4, 6), steps=0)


def test_coherence_moves_the_two_vectors_that_are_nearest() -> None:
    weight = torch.tensor([[1.0, 0.0, 0.0], [0.2, 1.0, 0.0], [0.9, 0.1, 1.0]], requires_grad=True)
    penalties.mutual_coherence(weight).backward()
    assert weight.grad is not None
    assert weight.grad.abs().amax(1).gt(0).tolist() == [True, False, True]


def test_a_row_of_zeros_has_no_direction_and_no_gradient_that_is_nan() -> None:
    weight = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]], requires_grad=True)
    value = penalties.mutual_coherence(weight)
    value.backward()
    assert value.item() == 0
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.zeros(2, 3))
