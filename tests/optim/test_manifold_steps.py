"""Each step on the manifold is its formula, for matrices of every kind."""

import pytest
import torch
from torch import nn

from optim.optimizers import CASES, METRICS, Case, frame, gaussian, on_stiefel, walk
from orthoscope.linalg import weight_matrix
from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.manifolds import Stiefel
from orthoscope.optim import Landing, RiemannianAdam, RiemannianSGD

cases = pytest.mark.parametrize("case", CASES, ids=str)
metrics = pytest.mark.parametrize("metric", METRICS)


@metrics
@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)])
def test_sgd_is_its_formula(metric: str, momentum: float, nesterov: bool) -> None:
    manifold, lr = Stiefel(metric), 0.3
    parameter = frame(7, 3)
    optimizer = RiemannianSGD(on_stiefel([parameter], metric), lr=lr, momentum=momentum, nesterov=nesterov)
    x = y = parameter.detach().clone()
    moment = torch.zeros_like(x)
    for seed in range(5):
        parameter.grad = gaussian(7, 3, seed=seed)
        optimizer.step()
        gradient = manifold.riemannian_gradient(y, gaussian(7, 3, seed=seed))
        moment = momentum * manifold.transport(x, y, moment) + gradient
        direction = gradient + momentum * moment if nesterov else moment
        x, y = y, polar_factor(y - lr * direction)
        torch.testing.assert_close(parameter.detach(), y, rtol=0, atol=1e-13)


@metrics
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adam_is_its_formula(metric: str, amsgrad: bool) -> None:
    manifold, lr, (beta1, beta2), eps = Stiefel(metric), 0.1, (0.8, 0.9), 1e-3
    parameter = frame(7, 3)
    optimizer = RiemannianAdam(on_stiefel([parameter], metric), lr=lr, betas=(beta1, beta2), eps=eps, amsgrad=amsgrad)
    y = parameter.detach().clone()
    first, second, largest = torch.zeros_like(y), 0.0, 0.0
    for step in range(1, 7):
        ambient = gaussian(7, 3, seed=step) / step
        parameter.grad = ambient.clone()
        optimizer.step()
        gradient = manifold.riemannian_gradient(y, ambient)
        first = beta1 * manifold.to_tangent(y, first) + (1 - beta1) * gradient
        second = beta2 * second + (1 - beta2) * manifold.inner(y, gradient, gradient).item() / 21
        largest = max(largest, second)
        size = ((largest if amsgrad else second) / (1 - beta2**step)) ** 0.5 + eps
        y = polar_factor(y - lr * first / (1 - beta1**step) / size)
        torch.testing.assert_close(parameter.detach(), y, rtol=0, atol=1e-13)


@metrics
def test_landing_is_its_formula(metric: str) -> None:
    manifold, lr, momentum = Stiefel(metric), 0.02, 0.9
    parameter = frame(7, 3)
    optimizer = Landing(on_stiefel([parameter], metric), lr=lr, momentum=momentum)
    x, moment = parameter.detach().clone(), torch.zeros(7, 3, dtype=torch.float64)
    safe = torch.finfo(torch.float64).eps ** 0.1
    shortened = []
    for seed in range(8):
        ambient = gaussian(7, 3, seed=seed) * (0.01 if seed < 4 else 1.0)
        parameter.grad = ambient.clone()
        optimizer.step()
        moment = momentum * moment + ambient
        direction = manifold.riemannian_gradient(x, moment)
        length = lr * direction.norm().item()
        shortened.append(length > safe)
        moved = x - lr * min(1.0, safe / length) * direction
        e = moved.mT @ moved - torch.eye(3, dtype=torch.float64)
        x = moved @ (
            torch.eye(3, dtype=torch.float64) - e / 2 + 3 / 8 * e @ e - 5 / 16 * e @ e @ e + 35 / 128 * e @ e @ e @ e
        )
        torch.testing.assert_close(parameter.detach(), x, rtol=0, atol=1e-13)
    assert any(shortened)
    assert not all(shortened)


def test_landing_converges_from_every_accepted_start() -> None:
    left, right = frame(8, 4, seed=1).detach().float(), frame(4, 4, seed=2).detach().float()
    sigma = torch.tensor([0.5, 0.8, 1.2, 1.5]).sqrt()
    parameter = nn.Parameter(left @ torch.diag(sigma * 0.9999 + 0.0001) @ right)
    optimizer = Landing(on_stiefel([parameter]), lr=1.0)
    excess = []
    walk(optimizer, 8, after=lambda step: excess.append(orthonormality_error(parameter.detach()).item()))
    assert excess[0] <= 0.5
    assert excess[-1] <= 1e-6


def test_landing_never_leaves_its_safe_set() -> None:
    r"""No step of length $\rho$ can take singular values from $\sigma^2 \in [\tfrac12, \tfrac32]$ out of it."""
    safe = torch.finfo(torch.float32).eps ** 0.1
    sigma = torch.linspace(0.5**0.5 - safe, 1.5**0.5 + safe, 10_001, dtype=torch.float64)
    e = sigma**2 - 1
    after = sigma * (1 - e / 2 + 3 / 8 * e**2 - 5 / 16 * e**3 + 35 / 128 * e**4)
    assert (after**2 - 1).abs().max().item() < 0.5


SINGULAR_VALUES = {
    "all 10": [10.0] * 16,
    "one just too large": [1.6] + [1.0] * 15,
    "one far too large": [5.5] + [1e-3] * 15,
    "all tiny": [1e-4] * 16,
    "none": [0.0] * 16,
    "rank one": [3.0] + [0.0] * 15,
    "squares overflow": [1e25] * 16,
}


@pytest.mark.parametrize("sigma", SINGULAR_VALUES.values(), ids=SINGULAR_VALUES.keys())
def test_landing_converges_after_a_weight_is_overwritten(sigma: list[float]) -> None:
    """As by a checkpoint loaded between two steps; the other weight of the stack moves as if alone."""
    parameter, other, alone = (frame(24, 16, seed=seed, dtype=torch.float32) for seed in (1, 2, 2))
    optimizer = Landing(on_stiefel([parameter, other]), lr=1e-3)
    reference = Landing(on_stiefel([alone]), lr=1e-3)
    for step in range(60):
        if step == 1:
            with torch.no_grad():
                parameter.mul_(torch.tensor(sigma))
        parameter.grad = gaussian(24, 16, seed=step, dtype=torch.float32)
        other.grad = alone.grad = gaussian(24, 16, seed=-step, dtype=torch.float32)
        optimizer.step()
        reference.step()
        assert bool(parameter.isfinite().all())
    assert orthonormality_error(parameter.detach()).item() <= 1e-6
    torch.testing.assert_close(other.detach(), alone.detach(), rtol=0, atol=1e-5)


def test_adam_moves_an_entry_by_its_learning_rate() -> None:
    for shape in ((40, 10), (10, 40), (25, 25)):
        parameter = frame(*shape)
        optimizer = RiemannianAdam(on_stiefel([parameter]), lr=1e-4)
        before = parameter.detach().clone()
        walk(optimizer, 1)
        rms = (parameter.detach() - before).square().mean().sqrt().item()
        assert rms == pytest.approx(1e-4, rel=1e-3)


@metrics
@cases
def test_a_wide_weight_and_a_convolution_are_the_transposed_frame(case: Case, metric: str) -> None:
    tall, wide = frame(12, 4), frame(4, 12)
    convolution = frame(4, 3, 2, 2)
    with torch.no_grad():
        wide.copy_(tall.mT)
        convolution.copy_(tall.mT.reshape(4, 3, 2, 2))
    channels_last = nn.Parameter(convolution.detach().clone(memory_format=torch.channels_last))
    optimizers = [case(on_stiefel([p], metric)) for p in (tall, wide, convolution, channels_last)]
    for seed in range(4):
        ambient = gaussian(12, 4, seed=seed)
        tall.grad, wide.grad = ambient, ambient.mT.contiguous()
        convolution.grad = ambient.mT.reshape(4, 3, 2, 2)
        channels_last.grad = convolution.grad.clone(memory_format=torch.channels_last)
        for optimizer in optimizers:
            optimizer.step()
    for other in (wide, convolution, channels_last):
        torch.testing.assert_close(weight_matrix(other.detach()).mT, tall.detach(), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (250, 200), (400, 700)], ids=str)
@cases
def test_many_weights_move_as_each_would_alone(case: Case, shape: tuple[int, int]) -> None:
    """Small ones are one stack, larger ones several stacks, the largest are moved one by one."""
    count = 5 if max(shape) < 100 else 3
    together = [frame(*shape, seed=i) for i in range(count)]
    alone = [nn.Parameter(p.detach().clone()) for p in together]
    batch = nn.Parameter(torch.stack([p.detach() for p in together]))
    optimizers = [case(on_stiefel(together)), *(case(on_stiefel([p])) for p in alone)]
    optimizers.append(case(on_stiefel([batch], batched=True)))
    for seed in range(3):
        gradient = gaussian(count, *shape, seed=seed) / shape[0] ** 0.5
        batch.grad = gradient
        for i in range(count):
            together[i].grad, alone[i].grad = gradient[i].clone(), gradient[i].clone()
        for optimizer in optimizers:
            optimizer.step()
    for i in range(count):
        torch.testing.assert_close(together[i].detach(), alone[i].detach(), rtol=0, atol=1e-11)
        torch.testing.assert_close(batch.detach()[i], alone[i].detach(), rtol=0, atol=1e-11)


@metrics
@cases
def test_maximizing_is_minimizing_the_negative(case: Case, metric: str) -> None:
    up, down = frame(6, 3), frame(6, 3)
    optimizers = [case(on_stiefel([up], metric), maximize=True), case(on_stiefel([down], metric))]
    for seed in range(3):
        up.grad, down.grad = gaussian(6, 3, seed=seed), -gaussian(6, 3, seed=seed)
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(up.detach(), down.detach(), rtol=0, atol=1e-14)
    assert not torch.allclose(up.detach(), frame(6, 3).detach())


@cases
def test_a_learning_rate_may_be_a_tensor(case: Case) -> None:
    number, tensor = frame(6, 3), frame(6, 3)
    start = number.detach().clone()
    walk(case(on_stiefel([number])), 3)
    walk(case(on_stiefel([tensor]), lr=torch.tensor(case.lr, dtype=torch.float64)), 3)
    torch.testing.assert_close(number.detach(), tensor.detach(), rtol=0, atol=1e-14)
    assert (number.detach() - start).abs().max().item() > 1e-3


@pytest.mark.slow
def test_adam_stays_at_a_constrained_optimum_in_single_precision() -> None:
    """There the gradient is normal, and its projection is rounding error."""
    parameter = frame(32, 8, dtype=torch.float32)
    start = parameter.detach().clone()
    optimizer = RiemannianAdam(on_stiefel([parameter]), lr=1e-2)
    for _ in range(200):
        parameter.grad = parameter.detach().clone()
        optimizer.step()
    assert (parameter - start).abs().max() < 2e-2  # at full length it would be 0.1 and more
    parameter.grad = parameter.detach() + gaussian(32, 8, dtype=torch.float32)
    for _ in range(20):
        optimizer.step()
    assert (parameter - start).abs().max() > 5e-2
