"""The deep AlexNet of Table 3: its layers, and that it runs forward and back."""

import pytest
import torch
from torch import nn

from orthoscope.data import images
from orthoscope_papers.daneshmand2021.alexnet_like import alexnet_like


def count(model: nn.Module, kind: type[nn.Module]) -> int:
    return sum(isinstance(module, kind) for module in model.modules())


@pytest.mark.parametrize("depth", [20, 80])
def test_alexnet_like_is_table_three(depth: int) -> None:
    with torch.device("meta"):
        model = alexnet_like(depth=depth)
        assert model(torch.empty(2, 3, 32, 32)).shape == (2, 10)
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == depth
    assert all(m.kernel_size == (3, 3) for m in convolutions)
    assert [(m.in_channels, m.out_channels) for m in convolutions[:4]] == [
        (3, 64),
        (64, 192),
        (192, 256),
        (256, 256),
    ]
    linears = [(m.in_features, m.out_features) for m in model.modules() if isinstance(m, nn.Linear)]
    assert linears == [(1024, 4096), (4096, 4096), (4096, 10)]
    assert count(model, nn.MaxPool2d) == 3
    assert count(model, nn.Dropout) == 2
    assert count(model, nn.ReLU) == 3 + (depth - 4) + 1 + 2


def test_alexnet_like_runs_forward_and_back_on_real_numbers() -> None:
    model = alexnet_like(depth=5, generator=torch.Generator().manual_seed(0))
    model(images(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    with pytest.raises(ValueError, match="depth is 3, but Table 3 has 4"):
        alexnet_like(depth=3)
