"""Weights on the manifold stay there, whatever the step, the type and the number of steps."""

import pytest
import torch
from torch import nn

from optim.optimizers import CASES, Case, frame, gaussian, on_stiefel, walk
from orthoscope.linalg import weight_matrix
from orthoscope.linalg.polar import orthonormality_error, polar_factor

cases = pytest.mark.parametrize("case", CASES, ids=str)
ORDINARY = [case for case in CASES if not case.options]


def error(parameters: list[nn.Parameter]) -> float:
    return max(orthonormality_error(weight_matrix(p.detach())).max().item() for p in parameters)


@pytest.mark.slow
@pytest.mark.parametrize("lr", [1e-3, 0.1, 1.0, 100.0])
@cases
def test_weights_stay_orthonormal_for_every_learning_rate(case: Case, lr: float) -> None:
    shapes = [(32, 8), (8, 8), (8, 32), (6, 3, 2, 2), (1, 5)]
    parameters = [frame(*shape, seed=i, dtype=torch.float32) for i, shape in enumerate(shapes)]
    optimizer = case(on_stiefel(parameters), lr=lr)
    errors: list[float] = []
    walk(optimizer, 40, after=lambda step: errors.append(error(parameters)))
    assert max(errors) <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "shape"), [*((case, (32, 8)) for case in ORDINARY), (ORDINARY[0], (8, 8))], ids=lambda value: str(value)
)
def test_ten_thousand_steps_do_not_drift(case: Case, shape: tuple[int, int]) -> None:
    parameter = frame(*shape, dtype=torch.float32)
    optimizer = case(on_stiefel([parameter]), lr=0.01)
    gradients = gaussian(64, *shape, dtype=torch.float32)
    errors = []
    for step in range(10_000):
        parameter.grad = gradients[step % 64]
        optimizer.step()
        if step % 500 == 499:
            errors.append(error([parameter]))
    assert max(errors) <= 1e-6
    assert max(errors[-5:]) <= 2 * max(errors[:5])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", ORDINARY, ids=str)
def test_weights_stay_orthonormal_to_the_precision_of_their_type(case: Case, dtype: torch.dtype) -> None:
    start = polar_factor(gaussian(9, 4, dtype=dtype if dtype.is_complex else torch.float64))
    parameter = nn.Parameter(start.to(dtype, copy=True))
    optimizer = case(on_stiefel([parameter]))
    for seed in range(20):
        parameter.grad = gaussian(9, 4, seed=seed, dtype=torch.complex128 if dtype.is_complex else torch.float64).to(
            dtype
        )
        optimizer.step()
    assert orthonormality_error(parameter.detach()).item() <= 8 * torch.finfo(dtype).eps
    assert (parameter.detach() - start).abs().max().item() > 0.01


@cases
def test_nan_in_a_gradient_reaches_its_own_weight_and_no_other(case: Case) -> None:
    parameters = [frame(6, 3, seed=i) for i in range(3)]
    optimizer = case(on_stiefel(parameters))
    walk(optimizer, 2)
    for parameter in parameters:
        parameter.grad = gaussian(6, 3)
    parameters[1].grad[0, 0] = torch.nan  # type: ignore[index]
    optimizer.step()
    assert bool(parameters[1].isnan().any())
    assert error([parameters[0], parameters[2]]) < 1e-14


def test_a_batch_may_have_several_dimensions_and_wide_matrices() -> None:
    for case in ORDINARY:
        start = torch.stack([frame(3, 5, seed=i).detach() for i in range(6)]).reshape(2, 3, 3, 5)
        batch = nn.Parameter(start)
        walk(case(on_stiefel([batch], batched=True)), 3)
        assert orthonormality_error(batch.detach()).max().item() < 1e-14
