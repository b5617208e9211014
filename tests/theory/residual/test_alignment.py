"""Representations of aligned residual blocks: the formula against the blocks, multiplied out."""

import pytest
import torch
from torch import Tensor

from orthoscope.linalg import haar
from orthoscope.theory.residual.alignment import aligned_representations, equispacing_singular_values


def block_by_block(initial: Tensor, directions: Tensor, singular_values: Tensor) -> Tensor:
    states = [initial]
    for values in singular_values:
        jacobian = directions @ values.diag() @ directions.mT
        states.append((torch.eye(len(initial), dtype=torch.float64) + jacobian) @ states[-1])
    return torch.stack(states)


@pytest.mark.parametrize(("units", "rank", "layers"), [(1, 1, 1), (7, 1, 12), (7, 3, 12), (5, 5, 20), (4, 2, 0)])
def test_formula_is_the_product_of_the_blocks(units: int, rank: int, layers: int, generator: torch.Generator) -> None:
    initial = torch.randn(units, generator=generator, dtype=torch.float64)
    directions = haar(units, rank, generator=generator, dtype=torch.float64)
    values = torch.randn(layers, rank, generator=generator, dtype=torch.float64)  # negative ones too: only U is shared
    found = aligned_representations(initial, directions, values)
    expected = block_by_block(initial, directions, values)
    assert found.shape == (layers + 1, units)
    assert (found - expected).norm() <= 1e-12 * expected.norm()


def test_a_block_that_erases_its_direction_leaves_the_rest() -> None:
    found = aligned_representations(torch.tensor([3.0, 4.0]), torch.tensor([[1.0], [0.0]]), torch.tensor([[-1.0]]))
    assert found[-1].tolist() == [0.0, 4.0]


def test_single_precision_frames_are_accepted_and_answered_in_double(generator: torch.Generator) -> None:
    directions = haar(50, 3, generator=generator)
    found = aligned_representations(torch.ones(50), directions, torch.ones(4, 3))
    assert found.dtype == torch.float64


def test_singular_values_start_at_the_first_and_their_inverses_rise_by_one() -> None:
    assert equispacing_singular_values(4).tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4], rel=1e-15)
    inverse = 1 / equispacing_singular_values(30, first=0.2)
    assert float(inverse[0]) == pytest.approx(5)
    assert inverse.diff().tolist() == pytest.approx([1.0] * 29)


def test_bad_input_gets_one_sentence() -> None:
    with pytest.raises(ValueError, match="directions must be 2 orthonormal columns of 3 units"):
        aligned_representations(torch.ones(3), torch.ones(3, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="depth must be at least 1 block, got 0"):
        equispacing_singular_values(0)
    with pytest.raises(ValueError, match="first singular value must be positive, got -1"):
        equispacing_singular_values(3, first=-1.0)
