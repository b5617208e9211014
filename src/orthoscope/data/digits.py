"""scikit-learn's 8 x 8 digits, embedded: the data that is always there."""

from importlib import resources

import numpy as np
import torch

from orthoscope.data.dataset import Labels, Pixels

# The set is ordered by writer, so its end holds hands that the training part has not seen.
TEST_SAMPLES = 360


def read_digits(split: str) -> tuple[Pixels, Labels]:
    """The first 1437 samples for "train", the last 360 for "test"; pixels from 0 to 16."""
    with (
        resources.files("orthoscope.data").joinpath("digits.npz").open("rb") as file,
        np.load(file, allow_pickle=False) as arrays,
    ):
        pixels, labels = torch.from_numpy(arrays["pixels"]), torch.from_numpy(arrays["labels"]).long()
    part = slice(-TEST_SAMPLES, None) if split == "test" else slice(-TEST_SAMPLES)
    return pixels[part], labels[part]
