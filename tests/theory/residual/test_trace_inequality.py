"""The largest trace over rotations: special cases, and input it cannot take."""

import pytest
import torch

from orthoscope.linalg import haar
from orthoscope.theory.residual.alignment import rotated_trace_supremum


def test_one_matrix_over_plane_rotations_is_a_known_maximum(generator: torch.Generator) -> None:
    """$\\max_\\theta \\operatorname{tr}(AR_\\theta) = \\sqrt{(a+d)^2+(b-c)^2}$, for both signs of the determinant."""
    matrices = torch.randn(1000, 1, 2, 2, generator=generator, dtype=torch.float64)
    a, b, c, d = matrices.flatten(1).unbind(-1)
    expected = torch.hypot(a + d, b - c)
    assert torch.allclose(rotated_trace_supremum(matrices), expected, atol=1e-12)
    assert 0.4 < (torch.linalg.det(matrices) < 0).double().mean() < 0.6, "both signs are there"


def test_rotations_give_the_size_and_reflections_two_less(generator: torch.Generator) -> None:
    orthogonal = haar(5, 5, 100, 1, generator=generator, dtype=torch.float64)
    expected = 4 + torch.linalg.det(orthogonal).squeeze(-1)
    assert torch.allclose(rotated_trace_supremum(orthogonal), expected, atol=1e-12)


def test_a_rank_one_factor_leaves_the_product_of_largest_singular_values(generator: torch.Generator) -> None:
    """As for the logit of the unconstrained Jacobians model: the determinant is 0 and its sign does not matter."""
    matrices = torch.randn(3, 4, 4, generator=generator, dtype=torch.float64)
    matrices[0] = torch.outer(matrices[0, 0], matrices[0, 1])
    expected = torch.linalg.matrix_norm(matrices, ord=2).prod()
    assert torch.allclose(rotated_trace_supremum(matrices), expected, rtol=1e-12)


def test_numbers_are_their_own_supremum() -> None:
    assert float(rotated_trace_supremum(torch.tensor([[[-2.0]], [[3.0]]]))) == -6


def test_bad_input_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match="at least one matrix of at least one row, got 0 of size 3"):
        rotated_trace_supremum(torch.zeros(0, 3, 3))
