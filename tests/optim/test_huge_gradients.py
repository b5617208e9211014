"""A gradient whose square overflows leaves weights on a manifold finite and orthonormal."""

import pytest
import torch
from torch import nn

from optim.optimizers import CASES, METRICS, Case, frame, gaussian, on_stiefel
from orthoscope.linalg.polar import orthonormality_error
from orthoscope.optim import RiemannianAdam

metrics = pytest.mark.parametrize("metric", METRICS)


@pytest.mark.parametrize("size", [1e19, 1e25, 1e35])
@metrics
@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_stay_orthonormal_after_a_huge_gradient(case: Case, metric: str, size: float) -> None:
    weights = [frame(6, 4, seed=seed, dtype=torch.float32) for seed in range(2)]
    optimizer = case(on_stiefel(weights, metric))
    for step in range(5):
        for weight in weights:
            weight.grad = gaussian(6, 4, seed=step, dtype=torch.float32)
        weights[0].grad = weights[0].grad * (size if step == 1 else 1)  # type: ignore[operator]
        optimizer.step()
    assert all(orthonormality_error(weight.detach()).item() < 1e-5 for weight in weights)


@metrics
@pytest.mark.parametrize("amsgrad", [False, True])
def test_the_second_moment_of_adam_is_correct_up_to_overflow(metric: str, amsgrad: bool) -> None:
    """The square of 1e19 is a third of the largest float32: that of an entry fits, the sum of 24 does not."""

    def moved(dtype: torch.dtype) -> tuple[nn.Parameter, float]:
        weight = nn.Parameter(frame(6, 4).detach().to(dtype))
        optimizer = RiemannianAdam(on_stiefel([weight], metric), lr=0.01, amsgrad=amsgrad)
        weight.grad = (gaussian(6, 4) * 1e19).to(dtype)
        optimizer.step()
        return weight, optimizer.state[weight]["exp_avg_sq"].item()

    (single, small), (double, large) = moved(torch.float32), moved(torch.float64)
    assert small == pytest.approx(large, rel=1e-5)
    torch.testing.assert_close(single.detach(), double.detach().float(), rtol=0, atol=1e-6)


@metrics
def test_a_huge_gradient_does_not_affect_other_weights(metric: str) -> None:
    weights = [frame(6, 4, seed=seed, dtype=torch.float32) for seed in range(3)]
    alone = frame(6, 4, seed=1, dtype=torch.float32)
    together, single = RiemannianAdam(on_stiefel(weights, metric)), RiemannianAdam(on_stiefel([alone], metric))
    for size, weight in zip((1e20, 1.0, 0.0), weights, strict=True):
        weight.grad = gaussian(6, 4, dtype=torch.float32) * size
    alone.grad = gaussian(6, 4, dtype=torch.float32)
    together.step()
    single.step()
    torch.testing.assert_close(weights[1].detach(), alone.detach(), rtol=0, atol=1e-7)
    assert weights[2].isfinite().all()
