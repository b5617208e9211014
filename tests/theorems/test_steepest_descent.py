r"""Steepest descent under a bound on the operator norm (Ju, 2025, slide 17, with the gradient that is missing there).

$$ \min_{\|\Delta W\|_2 \le \eta} \langle G, \Delta W\rangle = -\eta\,\|G\|_*, \quad \text{attained by } -\eta\,UV^\top,
   \qquad G = U\Sigma V^\top $$

No direction that is drawn or searched for does better, and those that other methods take do worse by what is computed.
"""

import math

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import haar, polar_factor
from orthoscope.metrics import rms_operator_norm
from orthoscope.optim import Muon

RATE = 0.3
ROUNDING = 1e-12  # of the value, relative; measured: 1e-15
CASES = {"wide": (4, 7, 4), "tall": (8, 3, 3), "square": (5, 5, 5), "rank deficient": (6, 5, 2), "rank one": (3, 6, 1)}
cases = pytest.mark.parametrize(("rows", "columns", "rank"), CASES.values(), ids=CASES)


def gradient(rows: int, columns: int, rank: int) -> Tensor:
    """Of that rank, with singular values 1 to 1/rank, so that directions matter."""
    generator = torch.Generator().manual_seed(100 * rows + columns)
    left, right = (haar(size, rank, generator=generator, dtype=torch.float64) for size in (rows, columns))
    return left @ (1 / torch.arange(1, rank + 1, dtype=torch.float64)).diag() @ right.mT


def slope(gradient: Tensor, direction: Tensor) -> Tensor:
    """First-order change of the loss."""
    return (gradient * direction).sum((-2, -1))


def best_value(gradient: Tensor) -> float:
    """The claim, by singular values alone."""
    return -RATE * float(torch.linalg.svdvals(gradient).sum())


def spectral_norm(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_norm(matrix, ord=2)


def feasible_directions(gradient: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Of norm η: Gaussian ones, extreme points (Haar), partial isometries, and neighbors of the claimed solution."""
    rows, columns = gradient.shape
    noise = torch.randn(count, rows, columns, generator=generator, dtype=torch.float64)
    short, long = sorted((rows, columns))
    frames = torch.stack([haar(short, long, generator=generator, dtype=torch.float64) for _ in range(count)])
    extreme = frames if rows <= columns else frames.mT
    left, values, right = torch.linalg.svd(noise, full_matrices=False)
    some = (torch.rand(values.shape, generator=generator, dtype=torch.float64) < 0.5).double()
    partial = left * some.unsqueeze(-2) @ right
    spread = torch.logspace(-4, 0, count, dtype=torch.float64)[:, None, None]
    near = polar_factor(-gradient + spread * noise * spectral_norm(gradient))
    return RATE * torch.cat([noise / spectral_norm(noise)[:, None, None], extreme, partial, near])


def clipped(matrix: Tensor) -> Tensor:
    """The nearest matrix of spectral norm at most η."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    return left * values.clamp_max(RATE).unsqueeze(-2) @ right


def searched(gradient: Tensor, starts: Tensor, steps: int = 300) -> Tensor:
    """Projected gradient descent of the slope from several starts; the ball is convex, so it cannot get stuck."""
    size = RATE / spectral_norm(gradient)
    for _ in range(steps):
        starts = clipped(starts - size * gradient)
    return starts


@cases
def test_the_solution_is_feasible_and_has_the_claimed_value(rows: int, columns: int, rank: int) -> None:
    slopes = gradient(rows, columns, rank)
    solution = -RATE * polar_factor(slopes)
    assert float(spectral_norm(solution)) == pytest.approx(RATE, rel=ROUNDING)
    assert float(slope(slopes, solution)) == pytest.approx(best_value(slopes), rel=ROUNDING)


@cases
def test_no_feasible_direction_that_is_drawn_does_better(
    rows: int, columns: int, rank: int, generator: torch.Generator
) -> None:
    slopes = gradient(rows, columns, rank)
    directions = feasible_directions(slopes, 400, generator)
    assert len(directions) >= 1000
    assert (spectral_norm(directions) <= RATE * (1 + ROUNDING)).all()
    ratios = slope(slopes, directions) / best_value(slopes)
    assert (ratios <= 1 + ROUNDING).all()
    assert float(ratios.max()) > 1 - 1e-6, "the closest neighbors come as close as that"
    if rank > 1:
        others = slope(slopes, directions[:1200]) / best_value(slopes)
        assert 0.2 < float(others.max()) < 0.999, "those drawn without knowledge of the gradient stay below"


@cases
def test_no_direction_that_is_searched_for_does_better_and_the_search_gets_there(
    rows: int, columns: int, rank: int, generator: torch.Generator
) -> None:
    slopes = gradient(rows, columns, rank)
    starts = RATE * torch.randn(6, rows, columns, generator=generator, dtype=torch.float64)
    starts[0] = 0
    starts[1] = RATE * polar_factor(slopes)  # straight uphill
    found = searched(slopes, starts)
    ratios = slope(slopes, found) / best_value(slopes)
    assert (ratios <= 1 + ROUNDING).all()
    assert (ratios >= 1 - 1e-9).all()
    apart = spectral_norm(found - found[:1]).max() / RATE
    if rank == min(rows, columns):
        assert float(apart) < 1e-4, "the only solution"
        assert torch.allclose(found[0], -RATE * polar_factor(slopes), atol=1e-4)
    else:
        assert float(apart) > 0.1, "where the gradient has no slope, many"


@pytest.mark.parametrize("count", [200])
def test_in_two_dimensions_every_extreme_point_was_looked_at(count: int, generator: torch.Generator) -> None:
    """The extreme points of the ball are the rotations and reflections: two circles."""
    angle = torch.linspace(0, 2 * math.pi, 20_001, dtype=torch.float64)
    cosine, sine = angle.cos(), angle.sin()
    rotations = torch.stack([cosine, -sine, sine, cosine], -1).reshape(-1, 2, 2)
    extreme = RATE * torch.cat([rotations, rotations * torch.tensor([1.0, -1.0], dtype=torch.float64)])
    for slopes in torch.randn(count, 2, 2, generator=generator, dtype=torch.float64):
        lowest = float(slope(slopes, extreme).min())
        assert best_value(slopes) * (1 + ROUNDING) <= lowest <= best_value(slopes) * (1 - 1e-7)


def test_solutions_of_a_rank_deficient_gradient_differ_where_it_has_no_slope(generator: torch.Generator) -> None:
    slopes = gradient(6, 5, 2)
    left, _, right = torch.linalg.svd(slopes)
    for size in (0.0, 0.5, 1.0):
        free = size * haar(3, 4, generator=generator, dtype=torch.float64)
        other = -RATE * (left[:, :2] @ right[:2] + left[:, 2:] @ free.mT @ right[2:])
        assert float(spectral_norm(other)) == pytest.approx(RATE, rel=ROUNDING)
        assert float(slope(slopes, other)) == pytest.approx(best_value(slopes), rel=ROUNDING)


@cases
def test_other_descent_directions_are_worse_by_what_the_spectrum_says(rows: int, columns: int, rank: int) -> None:
    r"""$-G$ reaches $\sum\sigma_i^2/(\sigma_1\sum\sigma_i)$ of the best, $-\operatorname{sign} G$ its own share."""
    slopes = gradient(rows, columns, rank)
    values = torch.linalg.svdvals(slopes)
    plain = -RATE * slopes / spectral_norm(slopes)
    share = float(slope(slopes, plain)) / best_value(slopes)
    assert share == pytest.approx(float(values.square().sum() / (values[0] * values.sum())), rel=ROUNDING)
    frobenius = -RATE * slopes / slopes.norm()
    of_frobenius = float(slope(slopes, frobenius)) / best_value(slopes)
    assert of_frobenius == pytest.approx(float(values.norm() / values.sum()), rel=ROUNDING)
    signs = -RATE * slopes.sign() / spectral_norm(slopes.sign())
    of_signs = float(slope(slopes, signs)) / best_value(slopes)
    assert of_signs == pytest.approx(float(slopes.abs().sum() / (spectral_norm(slopes.sign()) * values.sum())))
    if rank == 1:
        assert share == pytest.approx(1), "of rank one, the gradient is its own polar factor"
    else:
        assert share < 0.84, "with singular values 1 and 1/2 it is 5/6, with more of them less"
        assert of_frobenius < 0.75
        assert of_signs < 0.95


@cases
def test_the_search_would_find_a_better_direction_if_the_claim_were_of_another(
    rows: int, columns: int, rank: int, generator: torch.Generator
) -> None:
    """The gradient itself, and the polar factor that forgets a direction: drawing and searching beat both."""
    slopes = gradient(rows, columns, rank)
    left, _, right = torch.linalg.svd(slopes, full_matrices=False)
    wrong = [-RATE * left[:, 1:] @ right[1:]]
    if rank > 1:
        wrong.append(-RATE * slopes / spectral_norm(slopes))
    for claimed in wrong:
        value = float(slope(slopes, claimed))
        assert float(slope(slopes, feasible_directions(slopes, 100, generator)).min()) < value
        assert float(slope(slopes, searched(slopes, claimed[None])).min()) < value * 1.1 - 1e-3


@cases
def test_under_the_rms_norm_the_step_is_longer_by_the_root_of_the_shape(rows: int, columns: int, rank: int) -> None:
    r"""$\|\Delta W\|_{\text{RMS}\to\text{RMS}} \le \eta$ is $\|\Delta W\|_2 \le \eta\sqrt{\text{out}/\text{in}}$."""
    slopes = gradient(rows, columns, rank)
    factor = math.sqrt(rows / columns)
    solution = -RATE * factor * polar_factor(slopes)
    assert float(rms_operator_norm(solution)) == pytest.approx(RATE, rel=ROUNDING)
    assert float(slope(slopes, solution)) == pytest.approx(factor * best_value(slopes), rel=ROUNDING)
    generator = torch.Generator().manual_seed(0)
    rivals = torch.randn(1000, rows, columns, generator=generator, dtype=torch.float64)
    rivals[500:] = polar_factor(rivals[500:])
    rivals = RATE * rivals / rms_operator_norm(rivals)[:, None, None]
    assert (slope(slopes, rivals) >= slope(slopes, solution) * (1 + ROUNDING)).all()
    inputs = torch.randn(1000, columns, generator=generator, dtype=torch.float64)
    growth = (inputs @ solution.mT).square().mean(-1).sqrt() / inputs.square().mean(-1).sqrt()
    assert (growth <= RATE * (1 + ROUNDING)).all(), "no input changes by more than η"
    if rows != columns:
        unscaled = -RATE * polar_factor(slopes)
        assert float(rms_operator_norm(unscaled)) != pytest.approx(RATE, rel=0.05), "the factor is needed"


@pytest.mark.parametrize("scale", ["none", "rms_to_rms"])
@pytest.mark.parametrize("case", [name for name in CASES if "rank" not in name])
def test_a_step_of_muon_is_the_solution(case: str, scale: str) -> None:
    rows, columns, rank = CASES[case]
    slopes = gradient(rows, columns, rank)
    weight = torch.nn.Parameter(torch.randn(rows, columns, dtype=torch.float64))
    before = weight.detach().clone()
    weight.grad = slopes.clone()
    Muon([weight], lr=RATE, weight_decay=0.0, scale=scale, method="exact").step()
    factor = math.sqrt(rows / columns) if scale == "rms_to_rms" else 1.0
    update = weight.detach() - before
    assert float(slope(slopes, update)) == pytest.approx(factor * best_value(slopes), rel=1e-9)
    norm = rms_operator_norm(update) if scale == "rms_to_rms" else spectral_norm(update)
    assert float(norm) == pytest.approx(RATE, rel=1e-9)
