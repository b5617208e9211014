"""`project_` replaces a weight by the nearest orthonormal one, or raises."""

import pytest
import torch
from torch import Tensor, nn

from optim.optimizers import gaussian
from orthoscope.layers import orthogonal
from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.optim import project_


def test_every_matrix_of_a_batch_is_projected() -> None:
    batch = gaussian(2, 3, 5, 4)
    assert orthonormality_error(project_(batch, batched=True)).max().item() < 1e-14


def test_a_view_writes_to_its_parameter() -> None:
    parameter = nn.Parameter(gaussian(6, 4))
    expected = polar_factor(parameter.detach()[2:])
    project_(parameter[2:])
    assert torch.equal(parameter.detach()[2:], expected)
    assert torch.equal(parameter.detach()[:2], gaussian(6, 4)[:2])


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (torch.ones(3, 3, dtype=torch.int64), TypeError, r"has type torch.int64, .* convert it with .float\(\)"),
        (torch.ones(3), ValueError, r"a weight of shape \(3,\) is not a matrix"),
        (torch.ones(0, 3), ValueError, r"a weight of shape \(0, 3\) is empty"),
        (torch.full((3, 3), torch.nan), ValueError, r"has nan or infinite entries: initialize it again"),
    ],
    ids=["integer", "vector", "empty", "nan"],
)
def test_invalid_weights_are_refused_and_not_modified(weight: Tensor, error: type[Exception], message: str) -> None:
    before = weight.clone()
    with pytest.raises(error, match=message):
        project_(weight)
    torch.testing.assert_close(weight, before, equal_nan=True)


@pytest.mark.parametrize("shape", [(6, 6), (6, 3), (3, 6)], ids=str)
def test_the_output_of_a_parametrization_is_refused_with_a_remedy(shape: tuple[int, int]) -> None:
    layer = orthogonal(nn.Linear(*shape), start="haar")
    with pytest.raises(ValueError, match=r"is the result of a computation.*layer.weight = project_"):
        project_(layer.weight)
    layer.weight = project_(layer.weight.detach().clone())
    assert orthonormality_error(layer.weight.detach()).item() < 1e-6
