"""The short step against the polar retraction: orthonormal, of second order, and refused when it is too long."""

import pytest
import torch
from torch import Tensor, nn

from optim.optimizers import gaussian, on_stiefel, walk
from orthoscope.linalg import haar, orthonormality_error, polar_factor
from orthoscope.manifolds import Stiefel
from orthoscope.optim import RiemannianSGD
from orthoscope.optim.riemannian_sgd import retraction_term, short_step_, tangent_gram

SHAPES = [(6, 6), (1, 1), (3, 1), (12, 4), (40, 5), (2, 5, 5), (3, 9, 2)]
TYPES = [torch.float64, torch.complex128]


def frame_and_gradient(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return polar_factor(gaussian(*shape, dtype=dtype)), gaussian(*shape, seed=1, dtype=dtype) / shape[-2] ** 0.5


def stepped(x: Tensor, gradient: Tensor, rate: float) -> Tensor | None:
    moved = x.clone()
    return moved if short_step_(moved, gradient, x.mH @ gradient, rate) else None


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_short_step_is_the_polar_retraction_to_second_order(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, gradient = frame_and_gradient(shape, dtype)
    tangent = Stiefel().riemannian_gradient(x, gradient)
    rate = 2e-5
    new = stepped(x, gradient, rate)
    assert new is not None
    length = rate * torch.linalg.matrix_norm(tangent).max()
    assert (new - polar_factor(x - rate * tangent)).abs().max() < length**3 + 1e-15
    # A first-order retraction, and the step back, would be told apart.
    if length > 1e-8:
        assert (new - polar_factor(x + rate * tangent)).abs().max() > 1e-2 * rate


@pytest.mark.parametrize("shape", [(64, 64), (256, 64), (256, 8)], ids=str)
def test_the_remaining_deviation_is_within_the_bound_and_longer_steps_are_refused(shape: tuple[int, int]) -> None:
    """With the limit of float32, large enough to be measured in float64."""
    x = haar(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradient = gaussian(*shape, seed=1)
    taken: list[float] = []
    for rate in torch.logspace(-6, 0, 60, dtype=torch.float64).tolist():
        overlap = (x.mT @ gradient).float()
        if not short_step_(x.float(), gradient.float(), overlap, rate):
            continue
        # The same formula without its limit: a type whose rounding is that of float32 but that computes in float64.
        taken.append(float(orthonormality_error(unlimited(x, gradient, rate, torch.finfo(torch.float32).eps / 2))))
    assert len(taken) > 10
    assert max(taken) <= torch.finfo(torch.float32).eps / 2 + 1e-12
    assert max(taken) > 1e-3 * torch.finfo(torch.float32).eps, "the bound must not refuse everything that is felt"
    assert stepped(x.float(), gradient.float(), 1.0) is None


def unlimited(x: Tensor, gradient: Tensor, rate: float, limit: float = 0.0) -> Tensor:
    """The docstring's formulas, term by term; the correction is omitted up to `limit`."""
    overlap = x.mT @ gradient
    s, omega = (overlap + overlap.mT) / 2, (overlap - overlap.mT) / 2
    identity = torch.eye(x.shape[-1], dtype=x.dtype)
    if x.shape[-2] == x.shape[-1]:
        return x @ (identity - rate * omega + rate**2 * omega @ omega / 2)
    xi = gradient - x @ s
    excess = rate**2 * xi.mT @ xi
    correction = rate * (omega @ excess - excess @ omega) / 4
    turn, size = (float(torch.linalg.vector_norm(matrix, dim=-1).max()) for matrix in (rate * omega, excess))
    if turn * size + size**2 / 4 <= limit:
        correction = correction * 0
    return x @ (identity + rate * s - excess / 2 + correction) - rate * gradient


@pytest.mark.parametrize("shape", [(256, 64), (256, 8)], ids=str)
def test_omitted_terms_of_a_short_step_are_below_rounding(shape: tuple[int, int]) -> None:
    """With X ← X(I + ηS + R) - ηG the deviation is 2R + E + R² + η(ΩR - RΩ), whatever R is."""
    x, gradient = (
        haar(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64),
        gaussian(*shape, seed=1),
    )
    overlap, limit = x.mT @ gradient, torch.finfo(torch.float32).eps / 2
    left: dict[bool, list[float]] = {True: [], False: []}
    for rate in torch.logspace(-6, 0, 120, dtype=torch.float64).tolist():
        hermitian, skew = rate * (overlap + overlap.mT) / 2, rate * (overlap - overlap.mT) / 2
        excess = tangent_gram(gradient, hermitian, skew, rate)
        r = retraction_term(excess, skew, limit)
        if r is None:
            continue
        by_formula = 2 * r + excess + r @ r + skew @ r - r @ skew
        moved = x @ (torch.eye(shape[1], dtype=torch.float64) + hermitian + r) - rate * gradient
        torch.testing.assert_close(moved.mT @ moved - torch.eye(shape[1]).double(), by_formula, rtol=0, atol=1e-13)
        left[bool((r == -excess / 2).all())].append(float(by_formula.abs().max()))
    for found in left.values():
        assert found, "both with and without the correction"
        assert max(found) <= limit
    assert max(left[True]) > 0.02 * limit, "the correction must not be made long before it is felt"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_short_step_is_the_formula_of_its_docstring(shape: tuple[int, ...]) -> None:
    x, gradient = frame_and_gradient(shape, torch.float64)
    new = stepped(x, gradient, 1e-5)
    assert new is not None
    torch.testing.assert_close(new, unlimited(x, gradient, 1e-5), rtol=0, atol=1e-15)


def test_nan_and_shapes_between_square_and_tall_are_refused() -> None:
    x, gradient = frame_and_gradient((8, 5), torch.float64)
    assert stepped(x, gradient, 1e-6) is None
    x, gradient = frame_and_gradient((8, 8), torch.float64)
    gradient[0, 0] = torch.nan
    assert stepped(x, gradient, 1e-6) is None


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("shape", [(8, 8), (24, 6)], ids=str)
def test_a_short_step_writes_in_place_for_any_strides_and_a_long_one_writes_nothing(
    shape: tuple[int, int], by_columns: bool
) -> None:
    x, gradient = frame_and_gradient(shape, torch.float64)
    laid_out = x.mT.contiguous().mT if by_columns else x.clone()
    assert short_step_(laid_out, gradient, x.mT @ gradient, 1e-5)
    torch.testing.assert_close(laid_out, unlimited(x, gradient, 1e-5), rtol=0, atol=1e-15)
    untouched = x.clone()
    assert not short_step_(untouched, gradient, x.mT @ gradient, 10.0)
    assert torch.equal(untouched, x)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "longest"), [((512, 512), 1e-3), ((1024, 1024), 7e-4), ((2048, 512), 4e-4)], ids=str)
def test_steps_are_short_up_to_the_learning_rates_that_the_benchmark_names(
    shape: tuple[int, int], longest: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    x, gradient = haar(*shape, generator=generator), torch.randn(shape, generator=generator)
    assert short_step_(x.clone(), gradient, x.mT @ gradient, longest)
    assert not short_step_(x.clone(), gradient, x.mT @ gradient, 1.3 * longest)


@pytest.mark.parametrize(("lr", "tried"), [(1e-6, 28), (10.0, 4)])
def test_after_a_step_that_was_too_long_the_next_seven_are_not_tried(
    lr: float, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 32 steps every eighth is a retraction where steps are short, and an attempt where they are long."""
    calls: list[float] = []

    def counted(x: Tensor, gradient: Tensor, overlap: Tensor, rate: float) -> bool:
        calls.append(rate)
        return short_step_(x, gradient, overlap, rate)

    monkeypatch.setattr("orthoscope.optim.riemannian_sgd.short_step_", counted)
    parameter = nn.Parameter(haar(24, 6, generator=torch.Generator().manual_seed(0)))
    walk(RiemannianSGD(on_stiefel([parameter]), lr=lr), 32)
    assert len(calls) == tried
    assert orthonormality_error(parameter.detach()) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(24, 24), (60, 12), (12, 60)], ids=str)
def test_short_steps_and_retractions_follow_the_same_path_without_drift(shape: tuple[int, int]) -> None:
    """A negligible momentum always retracts."""
    start = haar(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    short, usual = nn.Parameter(start.float()), nn.Parameter(start.clone())
    walk(RiemannianSGD(on_stiefel([short]), lr=1e-4), 2000)
    walk(RiemannianSGD(on_stiefel([usual]), lr=1e-4, momentum=1e-30), 2000)
    assert orthonormality_error(short.detach()) < 1e-6
    assert (short.double() - usual).abs().max() < 1e-5
    assert (usual - start).abs().max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("lr", [1e-3, 1e-2, 2e-2, 5e-2])
@pytest.mark.parametrize("shape", [(768, 64), (64, 64)], ids=str)
def test_deviations_of_short_steps_do_not_accumulate_along_one_direction(shape: tuple[int, int], lr: float) -> None:
    """With a constant gradient of rank one, all steps leave deviations of the same sign."""
    parameter = nn.Parameter(haar(*shape, generator=torch.Generator().manual_seed(0)))
    parameter.grad = gaussian(shape[0], 1).float() @ gaussian(1, shape[1], seed=1).float() / shape[0] ** 0.5
    optimizer = RiemannianSGD(on_stiefel([parameter]), lr=lr)
    worst = 0.0
    for _ in range(80):
        optimizer.step()
        worst = max(worst, float(orthonormality_error(parameter.detach())))
    assert worst < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "scale", "lr"), [((3, 1), 50.0, 0.3), ((256, 16), 50.0, 0.03), ((60, 4), 5.0, 0.03)])
def test_large_normal_parts_of_a_gradient_do_not_lead_off_the_manifold(
    shape: tuple[int, int], scale: float, lr: float
) -> None:
    parameter = nn.Parameter(haar(*shape, generator=torch.Generator().manual_seed(0)))
    optimizer = RiemannianSGD(on_stiefel([parameter]), lr=lr)
    generator, worst = torch.Generator().manual_seed(1), 0.0
    for _ in range(300):
        parameter.grad = scale * parameter.detach() + 1e-3 * torch.randn(*shape, generator=generator)
        optimizer.step()
        worst = max(worst, float(orthonormality_error(parameter.detach())))
    assert worst < 1e-6
