"""Isometry from lengths alone, against its definition and against the metric of representations."""

import mpmath
import pytest
import torch

from orthoscope.metrics import isometry
from orthoscope.theory.gram.isometry import gram_isometry, isometry_gain, isometry_gain_bound


def test_isometry_agrees_with_the_metric_and_with_mpmath(generator: torch.Generator) -> None:
    rows = torch.randn(50, 4, 6, generator=generator, dtype=torch.float64)
    gram = rows @ rows.mT
    assert torch.allclose(gram_isometry(gram), isometry(rows), rtol=1e-10)
    exact = mpmath.matrix(gram[0].tolist())
    expected = mpmath.root(mpmath.det(exact), 4) / (sum(exact[i, i] for i in range(4)) / 4)
    assert float(gram_isometry(gram)[0]) == pytest.approx(float(expected), rel=1e-12)


def test_isometry_is_one_for_multiples_of_the_identity_and_zero_for_singular_matrices() -> None:
    for scale in (1e-200, 1.0, 1e200):
        assert float(gram_isometry(scale * torch.eye(5, dtype=torch.float64))) == pytest.approx(1)
    ones = torch.ones(40, 40, dtype=torch.float64)
    assert float(gram_isometry(ones)) == 0
    assert float(gram_isometry(torch.eye(40, dtype=torch.float64) - ones / 40)) == 0


def test_gain_of_two_lengths_is_known() -> None:
    lengths = torch.tensor([[1.0, 3.0], [2.0, 2.0]])
    assert isometry_gain(lengths).tolist() == pytest.approx([5 / 3, 1])
    assert isometry_gain_bound(lengths).tolist() == pytest.approx([5 / 4, 1])


def test_for_small_spread_the_bound_is_half_of_the_rise() -> None:
    lengths = 1 + 1e-3 * torch.linspace(-1, 1, 7, dtype=torch.float64)
    rise, bound = float(isometry_gain(lengths)) - 1, float(isometry_gain_bound(lengths)) - 1
    assert rise == pytest.approx(2 * bound, rel=1e-3)


def test_mistakes_get_one_clear_sentence() -> None:
    for lengths in ([1.0, 0.0], [1.0, -1.0], [1.0, torch.nan], [1.0, torch.inf]):
        with pytest.raises(ValueError, match="lengths must be positive numbers"):
            isometry_gain(torch.tensor(lengths))
    for matrix in (torch.zeros(3, 3), torch.diag(torch.tensor([1.0, -1.0]))):
        with pytest.raises(ValueError, match="isometry is defined for positive semi-definite matrices other than 0"):
            gram_isometry(matrix)
