"""The overlap of random directions against sampling, closed forms and the printed tables."""

import math

import pytest
import torch

from orthoscope.metrics import parameter_independence
from orthoscope.theory import random_parameter_independence


def test_one_and_two_dimensions_are_known() -> None:
    assert random_parameter_independence(1) == pytest.approx(1, rel=1e-15)
    assert random_parameter_independence(2) == pytest.approx(2 / math.pi, rel=1e-14)


def test_the_printed_starts_of_the_tables_come_out() -> None:
    assert round(random_parameter_independence(256), 3) == 0.050
    assert round(random_parameter_independence(128), 4) == 0.0707  # printed 0.070


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [3, 10, 128])
def test_gaussian_weights_have_it_and_not_the_asymptotic_value(dimension: int) -> None:
    generator = torch.Generator().manual_seed(dimension)
    weights = torch.randn(8000, 8, dimension, generator=generator, dtype=torch.float64)
    found = parameter_independence(weights)
    error = float(found.std() / len(found) ** 0.5)
    assert abs(float(found.mean()) - random_parameter_independence(dimension)) < 4 * error
    if dimension < 100:
        assert abs(float(found.mean()) - math.sqrt(2 / (math.pi * dimension))) > 10 * error


def test_a_vector_without_entries_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one entry"):
        random_parameter_independence(0)
