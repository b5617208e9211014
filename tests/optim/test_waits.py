"""How often a step asks a device for a value: each question makes the host wait until all work is done."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from optim.optimizers import frame, gaussian, on_stiefel
from orthoscope.optim import Landing, Muon, RiemannianAdam, RiemannianSGD


class Questions(TorchDispatchMode):
    """Counts operators whose answer is a number of the host, or whose result has a size that depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        asks = function in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default)
        self.count += asks
        return function(*args, **(kwargs or {}))


def weights() -> list[nn.Parameter]:
    shapes = ((64, 32), (64, 64), (48, 24), (128, 32))
    return [frame(*shape, seed=seed, dtype=torch.float32) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize(
    ("build", "most"),
    [
        (lambda w: Muon(w, lr=1e-3), 0),
        (lambda w: Landing(on_stiefel(w), lr=1e-3), 0),
        (lambda w: RiemannianSGD(on_stiefel(w), lr=1e-3, momentum=0.9), 2),
        (lambda w: RiemannianAdam(on_stiefel(w), lr=1e-3), 4),
    ],
    ids=["Muon", "Landing", "RiemannianSGD", "RiemannianAdam"],
)
def test_a_step_asks_for_at_most_so_many_values_a_shape(build: Any, most: int) -> None:
    own = weights()
    optimizer = build(own)
    for step in range(3):
        for seed, weight in enumerate(own):
            weight.grad = gaussian(*weight.shape, seed=10 * step + seed, dtype=torch.float32)
        with Questions() as questions:
            optimizer.step()
    assert questions.count <= most * len(own)
