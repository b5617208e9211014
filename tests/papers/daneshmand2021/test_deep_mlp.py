"""Weights of the mean singular value, as joudaki2024 prints them."""

import pytest
import torch
from torch import nn

from orthoscope.init import initialize_
from orthoscope.init.weights import weight_blocks
from orthoscope_papers.daneshmand2021.deep_mlp import svd_orthogonal_


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(30, 20), nn.Linear(20, 30), nn.Conv2d(6, 8, 3, groups=2), nn.ConvTranspose1d(6, 4, 3)],
    ids=repr,
)
def test_equalized_singular_values_are_the_mean_of_those_that_xavier_draws(layer: nn.Module) -> None:
    initialize_(layer, "xavier", gain=2.0, generator=seeded(0))
    drawn = weight_blocks(layer).double()
    initialize_(layer, svd_orthogonal_, gain=2.0, generator=seeded(0))
    made = weight_blocks(layer).double()
    for before, after in zip(drawn, made, strict=True):
        left, values, right = torch.linalg.svd(before, full_matrices=False)
        torch.testing.assert_close(after, values.mean() * left @ right, atol=1e-6, rtol=1e-5)
        assert float(values.std() / values.mean()) > 0.05, "they were not equal before"
