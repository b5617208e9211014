"""Prints the optimizers and methods whose compiled step moves a matrix as the plain one does, for test_compiled_steps.

With the code that the compiler generates, and matrices as large as the methods for large ones take.
"""

from collections.abc import Callable

import torch
from torch import nn
from torch.optim import Optimizer

from orthoscope.linalg import METHODS
from orthoscope.optim import Landing, Muon, RiemannianAdam, RiemannianSGD, project_, stiefel_parameter_groups

ROWS, COLUMNS = 300, 280


def moved(make: Callable[[nn.Module], Optimizer], compiled: bool) -> torch.Tensor:
    torch.manual_seed(0)
    layer = nn.Linear(COLUMNS, ROWS, bias=False)
    project_(layer.weight)
    optimizer = make(layer)
    layer.weight.grad = torch.randn(ROWS, COLUMNS)
    torch.compiler.reset()
    (torch.compile(optimizer.step) if compiled else optimizer.step)()
    return layer.weight.detach()


def compare(name: str, make: Callable[[nn.Module], Optimizer]) -> None:
    torch.testing.assert_close(moved(make, compiled=True), moved(make, compiled=False), atol=1e-5, rtol=1e-4)
    print(name)


for method in METHODS:
    compare(f"Muon {method}", lambda layer, method=method: Muon(layer.parameters(), lr=1.0, method=method))
for kind in (RiemannianSGD, RiemannianAdam, Landing):
    compare(kind.__name__, lambda layer, kind=kind: kind(stiefel_parameter_groups(layer), lr=0.1))
