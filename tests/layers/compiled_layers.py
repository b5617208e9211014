"""Prints the maps whose compiled layers agree with the plain ones in value and gradient; run by test_torch_contract."""

import torch
from torch import nn

from orthoscope.activations import ShapedActivation
from orthoscope.layers import CHARTS, orthogonal, orthogonal_convolution

generator = torch.Generator().manual_seed(0)


def compare(layer: nn.Module, *shape: int, parameters: list[nn.Parameter] | None = None) -> None:
    # With the code that the compiler generates: torch 2.13's forgets factors of some sums of products.
    compiled = torch.compile(layer)
    parameters = parameters or [layer.parametrizations.weight.original]
    inputs = torch.randn(shape, generator=generator)
    # Not the squared norm of the output, which orthogonal weights hardly change: its gradient is rounding.
    direction = torch.randn(layer(inputs).shape, generator=generator)
    results = []
    for function in (layer, compiled):
        output = function(inputs)
        results.append((output.detach(), *torch.autograd.grad((output * direction).sum(), parameters)))
    for found, expected in zip(results[1], results[0], strict=True):
        assert torch.dist(found, expected) < 1e-5 * torch.linalg.vector_norm(expected)


for map in CHARTS:
    compare(orthogonal(nn.Linear(6, 4), map=map, start="haar", generator=generator), 3, 6)
    print(map)
compare(orthogonal(nn.Conv2d(2, 3, 2), start="haar", generator=generator), 3, 2, 6, 6)
whole = orthogonal_convolution(nn.Conv2d(4, 6, 3), map="cayley", generator=generator)
compare(whole, 3, 4, 6, 6, parameters=list(whole.parameters()))
print("convolution")
shaped = nn.Sequential(*(ShapedActivation("tanh", gain) for gain in (0.3, 0.7)))
inputs = torch.randn(4, 3)
torch.testing.assert_close(torch.compile(shaped, fullgraph=True, backend="eager")(inputs), shaped(inputs))
print("shaped activation")
