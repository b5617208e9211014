"""Known optima are found by every optimizer in both metrics."""

import pytest
import torch

from optim.optimizers import CASES, METRICS, Case, frame, gaussian, on_stiefel
from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.manifolds import Stiefel

pytestmark = pytest.mark.slow

cases = pytest.mark.parametrize("case", CASES, ids=str)
metrics = pytest.mark.parametrize("metric", METRICS)


@metrics
@cases
def test_leading_eigenvectors_are_found(case: Case, metric: str) -> None:
    r"""Maximize $\operatorname{tr} X^\top A X$: the maximum is the sum of the largest eigenvalues (Ky Fan)."""
    matrix = torch.diag(torch.tensor([0.1 * i + (i > 6) for i in range(10)], dtype=torch.float64))
    basis = polar_factor(gaussian(10, 10, seed=3))
    matrix = basis @ matrix @ basis.mT
    x = frame(10, 3)
    optimizer = case(on_stiefel([x], metric), maximize=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
    for _ in range(400):
        optimizer.zero_grad()
        torch.trace(x.mT @ matrix @ x).backward()
        optimizer.step()
        schedule.step()
    best = torch.linalg.eigvalsh(matrix)[-3:].sum().item()
    assert torch.trace(x.mT @ matrix @ x).item() == pytest.approx(best, rel=1e-5)
    assert orthonormality_error(x.detach()).item() < 1e-14


@metrics
@cases
def test_procrustes_problem_is_solved(case: Case, metric: str) -> None:
    r"""$\min_X \|AX - B\|$ over square orthogonal $X$ is the polar factor of $A^\top B$, within its determinant."""
    left, noise = polar_factor(gaussian(12, 5, seed=1)), gaussian(12, 5, seed=2)
    x = frame(5, 5)
    # The target is on the side of the start: a determinant cannot change along a curve.
    goal = left @ Stiefel().retract(x.detach(), Stiefel().to_tangent(x.detach(), gaussian(5, 5, seed=4))) + 0.05 * noise
    optimizer = case(on_stiefel([x], metric))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
    for _ in range(400):
        optimizer.zero_grad()
        ((left @ x - goal).square().sum() / 2).backward()
        optimizer.step()
        schedule.step()
    torch.testing.assert_close(x.detach(), polar_factor(left.mT @ goal), rtol=0, atol=1e-3)
