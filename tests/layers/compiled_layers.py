"""Prints the maps whose compiled layers agree with the plain ones in value and gradient; run by test_torch_contract."""

import torch
from torch import nn

from orthoscope.layers import CHARTS, ShapedActivation, orthogonal


def compare(layer: nn.Module, inputs: torch.Tensor) -> None:
    # What could differ is what the compiler reads; generating code for it takes long and is torch's.
    compiled = torch.compile(layer, backend="eager")
    coordinates = layer.parametrizations.weight.original
    results = []
    for function in (layer, compiled):
        output = function(inputs)
        results.append((output.detach(), *torch.autograd.grad(output.square().sum(), [coordinates])))
    torch.testing.assert_close(results[1], results[0], atol=1e-5, rtol=1e-4)


generator = torch.Generator().manual_seed(0)
for map in CHARTS:
    compare(orthogonal(nn.Linear(6, 4), map=map, start="haar", generator=generator), torch.randn(3, 6))
    print(map)
compare(orthogonal(nn.Conv2d(2, 3, 2), start="haar", generator=generator), torch.randn(3, 2, 6, 6))
print("convolution")
shaped = nn.Sequential(*(ShapedActivation("tanh", gain) for gain in (0.3, 0.7)))
inputs = torch.randn(4, 3)
torch.testing.assert_close(torch.compile(shaped, fullgraph=True, backend="eager")(inputs), shaped(inputs))
print("shaped activation")
