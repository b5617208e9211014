"""Python's manual as training text: its splits, its characters, and its entropy."""

import math

import pytest
import torch

from orthoscope.data.dataset import SPLITS, VOCABULARY, python_manual


def test_the_splits_partition_the_text_in_order() -> None:
    parts = {split: python_manual(split) for split in SPLITS}
    total = sum(len(part) for part in parts.values())
    assert total > 300_000
    assert len(parts["validation"]) == len(parts["test"]) == total // 20
    text = bytes(torch.cat([parts[split] for split in SPLITS]).tolist()).decode("ascii")
    # The first and the last topic, by the alphabet.
    assert "assert" in text[:2000]
    assert "yield" in text[-20_000:]


def test_characters_are_ascii_with_less_than_uniform_entropy() -> None:
    characters = python_manual("train")
    assert characters.dtype == torch.int64
    assert 0 <= int(characters.min()) <= int(characters.max()) < VOCABULARY
    frequencies = torch.bincount(characters, minlength=VOCABULARY).double() / len(characters)
    entropy = -torch.special.xlogy(frequencies, frequencies).sum().item()
    assert 2.5 < entropy < 3.6 < math.log(VOCABULARY)


def test_an_unknown_split_is_refused_with_a_list_of_splits() -> None:
    with pytest.raises(ValueError, match=r"has the splits train, validation, test, got 'valid': choose one"):
        python_manual("valid")
