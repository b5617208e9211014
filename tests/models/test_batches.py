"""What a user may type for a batch."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from orthoscope.models import TargetError, resolve_batch

USER_CODE = """
import torch
from torch.utils.data import DataLoader, TensorDataset

def plain():
    return torch.randn(5, 3)

def sized(samples, generator=None):
    return {"inputs": torch.randn(samples, 3, generator=generator)}

def pair():
    return [torch.zeros(2, 3), torch.zeros(2)]

def stream():
    return loader

def broken():
    raise RuntimeError("no data")

def text():
    return "a batch"

tensor = torch.ones(4, 2)
mapping = {"x": torch.ones(4, 2)}
loader = DataLoader(TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6)), batch_size=4)
empty = DataLoader([], batch_size=4)
number = 3
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "batches.py"
    file.write_text(USER_CODE)
    yield str(file)
    sys.modules.pop("orthoscope_target_batches", None)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_function_makes_the_batch_and_draws_from_the_generator(user_file: str) -> None:
    source = resolve_batch(f"{user_file}::plain")
    before = torch.get_rng_state()
    assert torch.equal(source(9, seeded(0)), source(9, seeded(0)))
    assert not torch.equal(source(9, seeded(0)), source(9, seeded(1)))
    assert torch.equal(before, torch.get_rng_state())
    assert source().shape == (5, 3)


def test_a_function_that_wants_samples_and_generator_gets_them(user_file: str) -> None:
    source = resolve_batch(f"{user_file}::sized")
    assert source(9, seeded(0))["inputs"].shape == (9, 3)
    assert torch.equal(source(9, seeded(0))["inputs"], source(9, seeded(0))["inputs"])


def test_objects_are_batches_too_and_a_loader_is_its_first(user_file: str) -> None:
    assert resolve_batch(f"{user_file}::tensor")().shape == (4, 2)
    assert set(resolve_batch(f"{user_file}::mapping")()) == {"x"}
    assert isinstance(resolve_batch(f"{user_file}::pair")(), tuple)
    for name in ("loader", "stream"):
        inputs, labels = resolve_batch(f"{user_file}::{name}")()
        assert inputs.shape == (4, 2)
        assert labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "'batches' has no 'missing'"),
        ("broken", "raised RuntimeError: no data"),
        ("text", "gave an object of type str: a batch is a tensor"),
        ("empty", "gave an object of type NoneType: .* a DataLoader that is not empty"),
        ("number", "is an object of type int: name a function or class"),
    ],
)
def test_every_mistaken_batch_is_one_sentence(user_file: str, name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        resolve_batch(f"{user_file}::{name}")()
    assert "\n" not in str(caught.value)


def test_a_text_without_a_place_is_no_batch() -> None:
    with pytest.raises(TargetError, match="is not a batch: give package"):
        resolve_batch("batch")
