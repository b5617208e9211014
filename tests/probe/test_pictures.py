import base64

import numpy as np
import pytest
import torch
from torch import nn

from orthoscope.linalg import sample_frame
from orthoscope.probe import record
from orthoscope.probe.pictures import pictures


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
    (picture,) = pictures([sample_frame(hidden)], [True])
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
    small, usual = pictures([sample_frame(hidden) * 1e-200, sample_frame(hidden)], [True, True])
    assert small.eigenvalues == usual.eigenvalues
    assert small.gram == usual.gram


def test_samples_of_one_direction_are_one_bin_and_one_eigenvalue():
    (picture,) = pictures([sample_frame(torch.ones(5, 8))], [False])
    assert sum(picture.overlap_counts) == 10
    assert picture.eigenvalues[0] == pytest.approx(5)
    assert (decoded(picture) == 1).all()


@pytest.mark.parametrize(
    "frame", [torch.zeros(4, 4), torch.eye(1), torch.full((3, 3), torch.nan), torch.eye(4)[:, :1] @ torch.ones(1, 4)]
)
def test_what_has_no_angle_has_no_picture(frame):
    assert pictures([frame.double()], [True]) == [None]


def test_many_layers_have_coarse_pictures_and_weights_come_first(hidden):
    frames = [sample_frame(hidden)] * 4000
    weighted = [index % 2 == 1 for index in range(4000)]
    drawn = pictures(frames, weighted)
    assert all(drawn[index] is not None for index in range(4000) if weighted[index])
    assert sum(picture is not None for picture in drawn) == 3000
    assert len(drawn[1].eigenvalues) <= 16
    assert drawn[1].gram_size <= 10


def test_a_recording_has_pictures_only_when_asked(generator):
    model, batch = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), torch.randn(6, 4, generator=generator)
    assert all(layer.picture is None for layer in record(model, batch).layers)
    assert all(layer.picture is not None for layer in record(model, batch, pictures=True).layers)
