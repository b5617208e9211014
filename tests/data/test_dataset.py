"""Embedded digits, and batches that do not convert the whole dataset to floats."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from orthoscope.data import Dataset, load


@pytest.fixture
def digits() -> Dataset:
    return load("digits")


def test_digits_are_those_of_scikit_learn_in_their_order():
    reference = load_digits()
    train, test = load("digits", "train"), load("digits", "test")
    pixels = torch.cat([train.pixels, test.pixels]).squeeze(1)
    assert np.array_equal(pixels.numpy(), reference.images)
    assert np.array_equal(torch.cat([train.labels, test.labels]).numpy(), reference.target)
    assert (len(train), len(test), train.num_classes, test.num_classes) == (1437, 360, 10, 10)


def test_inputs_are_the_pixels_from_0_to_1(digits):
    assert digits.pixels.dtype == torch.uint8
    assert digits.inputs.dtype == torch.float32
    assert digits.inputs.shape == (1437, 1, 8, 8)
    assert (digits.inputs.min(), digits.inputs.max()) == (0, 1)
    assert torch.equal(digits.inputs * digits.scale, digits.pixels.float())


def test_inputs_are_converted_once(digits):
    assert digits.inputs is digits.inputs


def test_a_batch_has_every_sample_at_most_once_with_its_own_label(digits):
    numbered = Dataset("numbered", "train", digits.pixels, torch.arange(len(digits)), scale=16)
    inputs, labels = numbered.batch(len(numbered), torch.Generator().manual_seed(0))
    assert torch.equal(labels.sort().values, torch.arange(len(digits)))
    assert torch.equal(inputs, digits.inputs[labels])
    assert not torch.equal(labels, torch.arange(len(digits))), "the order must be random"


def test_a_batch_does_not_convert_the_whole_set(digits):
    digits.batch(8)
    assert "inputs" not in vars(digits)


def test_equal_generators_draw_equal_batches_and_different_ones_do_not(digits):
    first, second, third = (digits.batch(16, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    assert not torch.equal(first[0], third[0])


@pytest.mark.parametrize("size", [0, -3, 1438])
def test_a_batch_larger_than_the_set_or_empty_is_refused(digits, size):
    with pytest.raises(ValueError, match=rf"batch of {size} .* from 1 to 1437"):
        digits.batch(size)


def test_images_without_labels_are_refused(digits):
    # Where shapes are checked on every call, that check comes first, as a TypeError.
    with pytest.raises((ValueError, TypeError), match=r"1437 images but 5 labels|parameter 'labels'"):
        Dataset("broken", "train", digits.pixels, digits.labels[:5], scale=16)


def test_an_unknown_name_is_refused_with_a_list_of_names():
    with pytest.raises(ValueError, match="no embedded dataset 'imagenet': give 'digits', or one of the papers' image"):
        load("imagenet")


def test_an_unknown_split_is_refused_with_a_list_of_splits():
    with pytest.raises(ValueError, match="digits has no split 'validation': choose one of train, test"):
        load("digits", "validation")
