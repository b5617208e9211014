"""Planted leaks are found, clean models have none, and the model is left as it was."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.probe import leaks

TOKENS, WIDTH, WORDS = 12, 32, 40


class Gpt(nn.Module):
    """A small language model; `diagonal` 0 is the causal mask, 1 lets every token see the next one."""

    def __init__(self, diagonal: int = 0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.qkv, self.norm = nn.Linear(WIDTH, 3 * WIDTH), nn.LayerNorm(WIDTH)
        self.diagonal = diagonal

    def forward(self, ids: Tensor) -> Tensor:
        hidden = self.embed(ids)
        q, k, v = self.qkv(self.norm(hidden)).chunk(3, -1)
        allowed = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril(self.diagonal)
        return self.head(hidden + F.scaled_dot_product_attention(q, k, v, allowed))


def ids() -> Tensor:
    return torch.randint(0, WORDS, (6, TOKENS), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_mask_that_is_off_by_one_leaks_and_a_causal_one_does_not(dtype: torch.dtype) -> None:
    clean, leaky = leaks(Gpt().to(dtype), ids(), causal=True), leaks(Gpt(1).to(dtype), ids(), causal=True)
    assert clean.found == ()
    assert clean.later_tokens is not None
    assert clean.later_tokens <= clean.tolerance
    (sentence,) = leaky.found
    assert sentence.startswith("later tokens leak")
    assert leaky.later_tokens is not None
    assert leaky.later_tokens > 2 * leaky.tolerance


class Mixing(nn.Module):
    def __init__(self, mix: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3)
        self.mix = mix

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.mix(self.norm(self.first(inputs)).relu()))


MIXTURES = {
    "centered over the batch": lambda hidden: hidden - hidden.mean(0),
    "softmax over the batch": lambda hidden: hidden.softmax(0),
    "reshaped wrongly": lambda hidden: hidden.T.reshape(hidden.shape),
}


@pytest.mark.parametrize("way", MIXTURES)
def test_samples_that_are_mixed_leak(way: str) -> None:
    (sentence,) = leaks(Mixing(MIXTURES[way]), torch.randn(6, 8)).found
    assert sentence.startswith("samples leak")


def test_batch_norm_and_dropout_are_no_leak() -> None:
    model = nn.Sequential(Mixing(lambda hidden: hidden), nn.Dropout(0.5)).train()
    before = copy.deepcopy(model.state_dict())
    found = leaks(model, torch.randn(6, 8))
    assert found.found == ()
    assert found.other_samples == 0.0
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_what_is_not_tried_is_said() -> None:
    unknown = leaks(Gpt(1), ids())
    assert unknown.later_tokens is None
    assert "causal=True" in unknown.skipped[0]
    pooled = leaks(nn.Sequential(nn.Flatten(), nn.Linear(80, 2)), torch.randn(4, 10, 8), causal=True)
    assert "every token" in pooled.skipped[0]
    alone = leaks(nn.Linear(8, 8), torch.randn(1, 8))
    assert alone.other_samples is None
    assert "two samples" in alone.skipped[1]
    with pytest.raises(ValueError, match="floating-point"):
        leaks(nn.Identity(), torch.ones(4, 3, dtype=torch.int64))
