"""CIFAR-10 sheets: rows become images, and files that are not sheets are refused."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from orthoscope_papers.image_sets.loading import read_labels, read_sheet

SAMPLES, HEIGHT, WIDTH = 5, 3, 4


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(256, size=(SAMPLES, HEIGHT, WIDTH, 3), dtype=np.uint8)


@pytest.fixture
def sheet(tmp_path, pictures):
    path = tmp_path / "sheet.png"
    Image.fromarray(pictures.reshape(SAMPLES, HEIGHT * WIDTH, 3)).save(path)
    return path


def test_one_row_is_one_image_with_its_channels_first(sheet, pictures):
    pixels = read_sheet(sheet, SAMPLES, HEIGHT, WIDTH)
    assert pixels.dtype == torch.uint8
    assert pixels.is_contiguous()
    assert torch.equal(pixels, torch.from_numpy(pictures).permute(0, 3, 1, 2))


def test_a_sheet_of_another_size_is_refused_with_its_name(sheet):
    with pytest.raises(ValueError, match=r"sheet\.png is a 12x5 RGB image, but a sheet is 1024x10000 RGB"):
        read_sheet(sheet)


def test_a_gray_sheet_is_refused(tmp_path, pictures):
    Image.fromarray(pictures[..., 0].reshape(SAMPLES, HEIGHT * WIDTH)).save(tmp_path / "gray.png")
    with pytest.raises(ValueError, match="12x5 L image"):
        read_sheet(tmp_path / "gray.png", SAMPLES, HEIGHT, WIDTH)


@pytest.mark.parametrize("kept", [0, 20, 60, -30])
def test_a_truncated_sheet_is_refused_with_its_name(sheet, kept):
    sheet.write_bytes(sheet.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"sheet\.png is not a complete PNG"):
        read_sheet(sheet, SAMPLES, HEIGHT, WIDTH)


def test_a_picture_in_another_format_is_refused(tmp_path, pictures):
    Image.fromarray(pictures.reshape(SAMPLES, HEIGHT * WIDTH, 3)).save(tmp_path / "sheet.png", format="BMP")
    with pytest.raises(ValueError, match="not a complete PNG"):
        read_sheet(tmp_path / "sheet.png", SAMPLES, HEIGHT, WIDTH)


def test_labels_are_the_numbers_of_a_json_list(tmp_path):
    path = tmp_path / "labels.json"
    path.write_text("[3, 0, 9]")
    labels = read_labels(path, samples=3)
    assert labels.dtype == torch.int64
    assert labels.tolist() == [3, 0, 9]


@pytest.mark.parametrize("labels", [[3, 0], [3, 0, 10], [3, 0, -1], [3, 0, 1.0], [3, 0, True], {"3": 0}, 3, None])
def test_labels_of_wrong_number_or_value_are_refused(tmp_path, labels):
    path = tmp_path / "labels.json"
    path.write_text(json.dumps(labels))
    with pytest.raises(ValueError, match=r"labels\.json is not a list of 3 labels from 0 to 9"):
        read_labels(path, samples=3)


@pytest.mark.parametrize("text", [b"", b"[1, 2", b"\xff\xfe\xfa"])
def test_labels_that_are_not_json_are_refused(tmp_path, text):
    path = tmp_path / "labels.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"labels\.json is not a JSON list"):
        read_labels(path, samples=3)
