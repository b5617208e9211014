"""Two ways to apply reflections are one, and what they make is a frame."""

import pytest
import torch

from orthoscope.chains.rotations import _reflections, reflected_at_once, reflected_one_by_one, rotated


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize(("samples", "rank", "units"), [(3, 3, 9), (5, 5, 5), (8, 4, 6), (2, 1, 1), (40, 40, 40)])
def test_rotated_rows_keep_their_angles_either_way(samples: int, rank: int, units: int) -> None:
    rows, numbers = normal(6, samples, rank), normal(6, rank, units)
    turned = rotated(rows, numbers)
    torch.testing.assert_close(turned @ turned.mT, rows @ rows.mT, rtol=0, atol=1e-12)
    padded, reflections = normal(6, samples, units), _reflections(numbers)
    one_by_one, at_once = reflected_one_by_one(padded, reflections), reflected_at_once(padded, reflections)
    torch.testing.assert_close(one_by_one, at_once, rtol=0, atol=1e-12)


def test_a_rotation_is_the_frame_of_the_columns_that_it_is_made_of() -> None:
    """The first column of Q is that of the Gaussian matrix, of length one: the sign is that of QR with R_11 > 0."""
    numbers = normal(4, 3, 7)
    frame = rotated(torch.eye(3, dtype=torch.float64).expand(4, 3, 3), numbers).mT
    first = numbers[:, 0] / numbers[:, 0].norm(dim=-1, keepdim=True)
    torch.testing.assert_close(frame[..., 0], first, rtol=0, atol=1e-14)
