"""Iterative orthogonalization: predicted singular values against the layer itself."""

import pytest
import torch

from orthoscope.linalg import haar
from orthoscope.metrics import orthogonality_gap
from orthoscope.theory.chain.spectrum import iterative_gap, iterative_singular_values, spectral_orthogonality_gap
from references.batch_norm_cases import random_spectra


def one_step(hidden: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
    """W H by equation (6), units by samples, with a given V'."""
    frame, values, _ = torch.linalg.svd(hidden, full_matrices=False)
    weight = left @ torch.diag(values**-0.5) @ frame.mT / values.sum().sqrt()
    return weight @ hidden


@pytest.mark.parametrize(("units", "samples"), [(5, 5), (4, 9), (8, 3)])
def test_prediction_is_what_the_weights_do(units: int, samples: int, generator: torch.Generator) -> None:
    hidden = torch.randn(units, samples, generator=generator, dtype=torch.float64)
    hidden = hidden * torch.logspace(0, -2, samples)
    values = torch.linalg.svdvals(hidden)
    for steps in range(1, 5):
        hidden = one_step(hidden, haar(units, len(values), generator=generator, dtype=torch.float64))
        torch.testing.assert_close(torch.linalg.svdvals(hidden), iterative_singular_values(values, steps))
        torch.testing.assert_close(iterative_gap(values, steps, samples), orthogonality_gap(hidden.mT))


@pytest.mark.parametrize("samples", [2, 5, 20])
def test_gap_falls_strictly_at_every_step(samples: int, generator: torch.Generator) -> None:
    """1000 spectra; the fall is to a half near orthogonality, and arbitrarily small near collapse."""
    values = random_spectra(1000, samples, generator)
    gaps = torch.stack([iterative_gap(values, steps) for steps in range(6)], -1)
    torch.testing.assert_close(gaps[:, 0], spectral_orthogonality_gap(values))
    ratio = gaps[:, 1:] / gaps[:, :-1]
    assert float(ratio.max()) < 1
    collapsed = torch.tensor([1.0] + [1e-9] * (samples - 1), dtype=torch.float64)
    assert float(iterative_gap(collapsed, 1) / iterative_gap(collapsed, 0)) > 1 - 1e-6, "no factor below 1 will do"
    assert float((ratio[500:750, -1] - 0.5).abs().max()) < 0.01


def test_formula_of_the_docstring_holds(generator: torch.Generator) -> None:
    values = random_spectra(1000, 4, generator)
    expected = values.square().sum(-1) / values.sum(-1).square() - 1 / 9
    torch.testing.assert_close(iterative_gap(values, 1, samples=9).square(), expected)


def test_more_samples_than_units_leave_a_floor(generator: torch.Generator) -> None:
    values = random_spectra(4, 20, generator)
    floor = torch.full((4,), 1 / 20 - 1 / 60, dtype=torch.float64).sqrt()
    torch.testing.assert_close(iterative_gap(values, 60, samples=60), floor)
    equal = torch.ones(20, dtype=torch.float64)
    torch.testing.assert_close(iterative_gap(equal, 1, samples=60), iterative_gap(equal, 0, samples=60))


def test_many_steps_neither_overflow_nor_stop_short() -> None:
    values = torch.tensor([1.0, 1e-150], dtype=torch.float64)
    assert float(iterative_gap(values, 0)) == pytest.approx(0.5**0.5)
    assert float(iterative_gap(values, 60)) < 1e-15


def test_bad_input_is_refused_in_a_sentence() -> None:
    with pytest.raises(ValueError, match="has no inverse root"):
        iterative_gap(torch.tensor([1.0, 0.0]), 1)
    with pytest.raises(ValueError, match="steps is -1"):
        iterative_gap(torch.ones(2), -1)
