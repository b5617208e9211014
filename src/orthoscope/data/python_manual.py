"""The reference manual that every Python carries for `help()`: half a megabyte of English, always there."""

from pydoc_data.topics import topics

import torch
from jaxtyping import Int64
from torch import Tensor

VOCABULARY = 128  # ASCII; the few other characters are read as question marks
SPLITS = ("train", "validation", "test")


def python_manual(split: str) -> Int64[Tensor, " characters"]:
    """Characters as numbers below 128: nine tenths of the topics' text for "train", a twentieth each for the others.

    Topics come in alphabetical order and are cut at no boundary of theirs. The text is that of the Python that
    runs, so a number made from it goes with that Python's version.
    """
    if split not in SPLITS:
        raise ValueError(f"the manual has the splits {', '.join(SPLITS)}, got {split!r}: choose one of them")
    text = "\n\n".join(topics[name] for name in sorted(topics)).encode("ascii", "replace")
    characters = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    size = len(characters) // 20
    places = {"train": slice(-2 * size), "validation": slice(-2 * size, -size), "test": slice(-size, None)}
    return characters[places[split]]
