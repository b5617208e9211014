import base64
import gc

import numpy as np
import pytest
import torch
from torch import nn

from orthoscope.linalg import gram_factor
from orthoscope.metrics import effective_rank
from orthoscope.probe import record
from orthoscope.probe.details import WeightReferences, pictures, weight_spectra


def decoded(picture):
    """The matrix of cosines, from its bytes."""
    size = picture.gram_size
    matrix = np.eye(size)
    values = np.frombuffer(base64.b64decode(picture.gram), dtype=np.int8) / 127
    matrix[np.triu_indices(size, 1)] = values
    return matrix + np.triu(matrix, 1).T


@pytest.fixture
def hidden(generator):
    return torch.randn(20, 30, generator=generator, dtype=torch.float64) + 0.3


def test_a_picture_is_of_the_samples_themselves(hidden):
    (picture,) = pictures([gram_factor(hidden)], [True])
    rows = hidden.numpy()
    gram = rows @ rows.T
    eigenvalues = np.linalg.eigvalsh(gram)[::-1] * len(rows) / np.trace(gram)
    np.testing.assert_allclose(picture.eigenvalues, eigenvalues, rtol=6e-4)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.testing.assert_allclose(decoded(picture), cosines, atol=0.5 / 127 + 1e-9)
    pairs = cosines[np.triu_indices(20, 1)]
    assert picture.overlap_range == pytest.approx((pairs.min(), pairs.max()))
    counts, _ = np.histogram(pairs, len(picture.overlap_counts), picture.overlap_range)
    assert list(picture.overlap_counts) == counts.tolist()


def test_a_picture_ignores_the_scale(hidden):
    small, usual = pictures([gram_factor(hidden) * 1e-200, gram_factor(hidden)], [True, True])
    assert small.eigenvalues == usual.eigenvalues
    assert small.gram == usual.gram


def test_the_rank_around_the_mean_is_of_samples_that_were_centered_before_they_were_multiplied(hidden):
    nearly_equal = 1 + 1e-8 * hidden
    far, near = pictures([gram_factor(hidden), gram_factor(nearly_equal)], [True, True])
    assert far.centered_rank == pytest.approx(float(effective_rank(hidden, centered=True)), rel=1e-3)
    assert near.centered_rank == pytest.approx(float(effective_rank(nearly_equal, centered=True)), rel=2e-3)


def test_samples_of_one_direction_are_one_bin_and_one_eigenvalue():
    (picture,) = pictures([gram_factor(torch.ones(5, 8))], [False])
    assert sum(picture.overlap_counts) == 10
    assert picture.eigenvalues[0] == pytest.approx(5)
    assert (decoded(picture) == 1).all()


@pytest.mark.parametrize(
    "frame", [torch.zeros(4, 4), torch.eye(1), torch.full((3, 3), torch.nan), torch.eye(4)[:, :1] @ torch.ones(1, 4)]
)
def test_what_has_no_angle_has_no_picture(frame):
    assert pictures([frame.double()], [True]) == [None]


@pytest.mark.slow
def test_many_layers_have_coarse_pictures_and_weights_come_first(hidden):
    frames = [gram_factor(hidden)] * 4000
    weighted = [index % 2 == 1 for index in range(4000)]
    drawn = pictures(frames, weighted)
    assert all(drawn[index] is not None for index in range(4000) if weighted[index])
    assert sum(picture is not None for picture in drawn) == 3000
    assert len(drawn[1].eigenvalues) <= 16
    assert drawn[1].gram_size <= 10


def test_a_recording_keeps_factors_only_when_asked(generator):
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), torch.randn(6, 4, generator=generator)
    assert record(model, batch).factors == ()
    factors = record(model, batch, keep_factors=True).factors
    outputs = [model[0](batch), model(batch)]
    for factor, output in zip(factors, outputs, strict=True):
        torch.testing.assert_close(factor @ factor.mT, output.double() @ output.double().mT)


@pytest.mark.slow
def test_spectra_are_those_of_the_weights_and_only_of_weights_that_did_not_change(generator):
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Conv1d(4, 3, 2), nn.Linear(300, 300))
    weights = WeightReferences(model, ["0", "2", "3"])
    spectra = weight_spectra(weights)
    assert set(spectra) == {"0", "2"}, "300 x 300 is too large to be drawn"
    for name, matrix in (("0", model[0].weight), ("2", model[2].weight.flatten(1))):
        values = torch.linalg.svdvals(matrix.detach().double())
        assert (spectra[name].rows, spectra[name].columns) == tuple(matrix.shape)
        torch.testing.assert_close(torch.tensor(spectra[name].values, dtype=torch.float64), values, rtol=1e-3, atol=0)
    with torch.no_grad():
        model[0].weight.mul_(2)
    assert set(weight_spectra(weights)) == {"2"}
    del model
    gc.collect()
    assert weight_spectra(weights) == {}
