"""Residual alignment (Li & Papyan, 2023): Theorems 3.1 and 3.3 and the trace inequality, corrected."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from orthoscope.linalg import haar
from orthoscope.theory.residual.alignment import (
    aligned_representations,
    equispacing_singular_values,
    rotated_trace_supremum,
    unconstrained_jacobians_optimum,
)

ROUNDING = 1e-12


def line_score(states: Tensor) -> float:
    """Number of steps over the length of the sum of unit steps: 1 on a straight line."""
    steps = states.diff(dim=0)
    unit = steps / steps.norm(dim=-1, keepdim=True)
    return len(steps) / float(unit.sum(0).norm())


def spread(states: Tensor) -> float:
    lengths = states.diff(dim=0).norm(dim=-1)
    return float(lengths.std() / lengths.mean())


@pytest.mark.parametrize("first", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("rank", [1, 3])
def test_representations_are_equally_spaced_on_a_line(first: float, rank: int) -> None:
    """Theorem 3.1, for any first singular value and, beyond the paper, any rank with its own first value each."""
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        initial = torch.randn(8, generator=generator, dtype=torch.float64)
        directions = haar(8, rank, generator=generator, dtype=torch.float64)
        values = torch.stack([equispacing_singular_values(20, first=first * (1 + r)) for r in range(rank)], dim=-1)
        states = aligned_representations(initial, directions, values)
        assert line_score(states) == pytest.approx(1, abs=ROUNDING)
        assert spread(states) < 1e-10
        across = initial - directions @ (directions.mT @ initial)
        assert (states - states @ directions @ directions.mT - across).abs().max() < 1e-12
        assert across.norm() > 0.1, "what the printed form drops is not small"


def test_one_direction_and_inverse_depth_add_the_same_vector_every_block(generator: torch.Generator) -> None:
    initial = torch.randn(5, generator=generator, dtype=torch.float64)
    direction = haar(5, 1, generator=generator, dtype=torch.float64)
    states = aligned_representations(initial, direction, equispacing_singular_values(9).unsqueeze(-1))
    expected = initial + torch.arange(10).unsqueeze(-1) * (direction @ (direction.mT @ initial))
    assert torch.allclose(states, expected, atol=ROUNDING)


@pytest.mark.parametrize(
    "values",
    [torch.full((20,), 0.2), 0.5 / torch.arange(1, 21), 2 / torch.arange(1, 21)],
    ids=["equal", "slope 2", "slope ½"],
)
def test_other_singular_values_stay_on_the_line_but_not_equally_spaced(
    values: Tensor, generator: torch.Generator
) -> None:
    """1/s linear in depth is not enough: the slope must be 1."""
    initial = torch.randn(5, generator=generator, dtype=torch.float64)
    direction = haar(5, 1, generator=generator, dtype=torch.float64)
    states = aligned_representations(initial, direction, values.unsqueeze(-1))
    assert line_score(states) == pytest.approx(1, abs=ROUNDING)
    assert spread(states) > 0.2


def trained(starts: int, size: int, depth: int, decay: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The full matrix problem from random starts at once: Δx, w, J and the objective of each."""
    generator = torch.Generator().manual_seed(3)
    difference = torch.nn.functional.normalize(torch.randn(size, generator=generator, dtype=torch.float64), dim=0)
    head = (0.5 * torch.randn(starts, size, generator=generator, dtype=torch.float64)).requires_grad_()
    jacobians = (
        0.2 * torch.randn(starts, depth, size, size, generator=generator, dtype=torch.float64)
    ).requires_grad_()

    def objectives() -> Tensor:
        state = difference.expand(starts, size)
        for layer in range(depth):
            state = state + (jacobians[:, layer] @ state.unsqueeze(-1)).squeeze(-1)
        penalty = jacobians.square().sum((-3, -2, -1)) + head.square().sum(-1)
        return softplus(-(head * state).sum(-1)) + decay / 2 * penalty

    optimizer = torch.optim.LBFGS(
        [head, jacobians],
        max_iter=3000,
        tolerance_grad=1e-11,
        tolerance_change=0.0,
        history_size=30,
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        optimizer.zero_grad()
        total = objectives().sum()  # separable: every start descends on its own
        total.backward()
        return float(total.detach())

    optimizer.step(closure)
    return difference, head.detach(), jacobians.detach(), objectives().detach()


@pytest.mark.slow
def test_training_the_matrices_finds_aligned_rank_one_jacobians_of_the_predicted_size() -> None:
    """Theorem 3.3, D = 6, L = 5, decay 0.02, by descent from 8 random starts."""
    difference, head, jacobians, objectives = trained(starts=8, size=6, depth=5, decay=0.02)
    predicted = unconstrained_jacobians_optimum(5, 0.02)
    assert (objectives - predicted.objective).abs().max() < ROUNDING
    expected = predicted.singular_value * torch.outer(difference, difference)
    assert (jacobians - expected).abs().max() < 1e-6
    assert (head - predicted.head_norm * difference).abs().max() < 1e-6
    assert abs(predicted.singular_value - predicted.head_norm) > 0.1, "the head is not averaged with the Jacobians"


def test_the_logit_of_any_jacobians_is_below_that_of_aligned_ones(generator: torch.Generator) -> None:
    r"""$w^\top\prod(I+J_i)\Delta x \le \|w\|\|\Delta x\|\prod(1+\|J_i\|_2)$: holds, and is tight near alignment."""
    cases, size, depth = 1000, 4, 3
    direction = haar(size, 1, cases, generator=generator, dtype=torch.float64)
    noise = torch.logspace(-3, 1, cases, dtype=torch.float64).reshape(-1, 1, 1, 1)
    draws = torch.randn(cases, depth, size, size, generator=generator, dtype=torch.float64)
    jacobians = (direction @ direction.mT).unsqueeze(1) + noise * draws
    state = direction
    for layer in range(depth):
        state = state + jacobians[:, layer] @ state
    logit = (direction.mT @ state).flatten()
    ratio = logit / (1 + torch.linalg.matrix_norm(jacobians, ord=2)).prod(-1)
    assert ratio.max() <= 1 + ROUNDING
    assert ratio.max() > 0.999
    assert ratio.min() < 0.5


def rotations(size: int, *batch: int, generator: torch.Generator) -> Tensor:
    orthogonal = haar(size, size, *batch, generator=generator, dtype=torch.float64)
    orthogonal[..., 0] *= torch.linalg.det(orthogonal).sign().unsqueeze(-1)
    return orthogonal


def rotated_trace(matrices: Tensor, turns: Tensor) -> Tensor:
    factors = (matrices @ turns).unbind(-3)
    product = factors[0]
    for factor in factors[1:]:
        product = product @ factor
    return product.diagonal(dim1=-2, dim2=-1).sum(-1)


def maximizers(matrices: Tensor) -> Tensor:
    r"""$P_j = V_jD_jU_{j+1}^\top$, $A_j = U_jS_jV_j^\top$; $D_j = \mathrm{diag}(1,\dots,\pm1)$ makes $\det P_j = 1$."""
    u, _, vh = torch.linalg.svd(matrices)
    v, following = vh.mT, u.roll(-1, dims=-3)
    v = v.clone()
    v[..., -1] *= torch.linalg.det(v @ following.mT).sign().unsqueeze(-1)
    return v @ following.mT


@pytest.mark.parametrize(("factors", "size"), [(1, 3), (2, 2), (2, 4), (3, 2), (5, 3)])
def test_no_rotation_exceeds_the_supremum_and_one_attains_it(
    factors: int, size: int, generator: torch.Generator
) -> None:
    matrices = torch.randn(1000, factors, size, size, generator=generator, dtype=torch.float64)
    matrices[:200, 0] = matrices[:200, 0, :, :1] @ matrices[:200, 0, :1]  # rank one, as Δx wᵀ
    supremum = rotated_trace_supremum(matrices)
    tried = rotated_trace(matrices.unsqueeze(0), rotations(size, 20, 1000, factors, generator=generator))
    assert (tried <= supremum + 1e-12).all()
    best = maximizers(matrices)
    assert torch.allclose(torch.linalg.det(best), torch.ones(()).double())
    assert torch.allclose(rotated_trace(matrices, best), supremum, atol=1e-10)


def test_random_rotations_come_close_to_the_supremum_in_the_plane(generator: torch.Generator) -> None:
    matrices = torch.randn(1000, 2, 2, 2, generator=generator, dtype=torch.float64)
    tried = rotated_trace(matrices.unsqueeze(0), rotations(2, 50, 1000, 2, generator=generator)).amax(0)
    assert (tried / rotated_trace_supremum(matrices)).max() > 0.9999


def test_reflections_exceed_the_supremum_when_the_determinant_is_negative(generator: torch.Generator) -> None:
    """So the subtracted term is needed, and the restriction to determinant 1 matters."""
    matrices = torch.randn(1000, 2, 3, 3, generator=generator, dtype=torch.float64)
    u, s, vh = torch.linalg.svd(matrices)
    free = rotated_trace(matrices, vh.mT @ u.roll(-1, dims=-3).mT)
    negative = torch.linalg.det(matrices).prod(-1) < 0
    excess = free - rotated_trace_supremum(matrices)
    assert torch.allclose(excess, torch.where(negative, 2 * s[..., -1].prod(-1), 0), atol=1e-10)
    assert 0.4 < negative.double().mean() < 0.6
