"""The one table of optimizers: whoever joins it earns every law."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.manifolds import Stiefel
from orthoscope.optim import Landing, RiemannianAdam, RiemannianSGD


@dataclass(frozen=True)
class Case:
    """An optimizer with its options, torch's own with the same, and a learning rate that suits small problems."""

    build: type[torch.optim.Optimizer]
    plain: type[torch.optim.Optimizer]
    lr: float
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, groups: Any, **options: Any) -> torch.optim.Optimizer:
        return self.build(groups, **{"lr": self.lr, **self.options, **options})  # type: ignore[call-arg]

    def __str__(self) -> str:
        return "-".join([self.build.__name__, *(f"{key}={value}" for key, value in self.options.items())])


CASES = [
    Case(RiemannianSGD, torch.optim.SGD, 0.05),
    Case(RiemannianSGD, torch.optim.SGD, 0.01, {"momentum": 0.9}),
    Case(RiemannianSGD, torch.optim.SGD, 0.01, {"momentum": 0.9, "dampening": 0.5}),
    Case(RiemannianSGD, torch.optim.SGD, 0.01, {"momentum": 0.9, "nesterov": True}),
    Case(RiemannianAdam, torch.optim.Adam, 0.01),
    Case(RiemannianAdam, torch.optim.Adam, 0.01, {"amsgrad": True}),
    Case(Landing, torch.optim.SGD, 0.05),
    Case(Landing, torch.optim.SGD, 0.01, {"momentum": 0.9}),
    Case(Landing, torch.optim.SGD, 0.01, {"momentum": 0.9, "nesterov": True}),
]
METRICS = ["euclidean", "canonical"]


def gaussian(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def frame(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    """An orthonormal matrix, tall or wide, or a convolution whose matrix `(out, in·k·k)` is one."""
    parameter = nn.Parameter(torch.empty(shape, dtype=dtype))
    return nn.init.orthogonal_(parameter, generator=torch.Generator().manual_seed(seed))  # type: ignore[return-value]


def on_stiefel(parameters: list[nn.Parameter], metric: str = "euclidean", **options: Any) -> list[dict[str, Any]]:
    return [{"params": parameters, "manifold": Stiefel(metric), **options}]


def walk(
    optimizer: torch.optim.Optimizer, steps: int, seed: int = 0, after: Callable[[int], None] = lambda step: None
) -> None:
    """Steps with Gaussian gradients that depend on the parameter's place, its shape and the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                parameter.grad = gradient.to(parameter.dtype)
        optimizer.step()
        after(step)


def quintic(grad: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """What `torch.optim.Muon` computes, in the type of the gradient instead of bfloat16."""
    a, b, c = coefficients
    x = grad.T if grad.shape[0] > grad.shape[1] else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.shape[0] > grad.shape[1] else x
