"""Attention inside a pass agrees with weights that are computed in full, however the attention is written."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.probe import AttentionCall, record
from orthoscope.probe.attention import attention_weights

SAMPLES, TOKENS, WIDTH, HEADS = 4, 10, 16, 2


def sequences(samples: int = SAMPLES, tokens: int = TOKENS) -> Tensor:
    return torch.randn(samples, tokens, WIDTH, generator=torch.Generator().manual_seed(0))


class Attention(nn.Module):
    """Self-attention as people write it; `attend(q, k, v)` is the part that differs."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor], scale: float = 3.0) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.attend = attend
        with torch.no_grad():
            self.q_proj.weight.mul_(scale)
            self.k_proj.weight.mul_(scale / 2)

    def split(self, hidden: Tensor) -> Tensor:
        return hidden.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(self, hidden: Tensor) -> Tensor:
        q, k, v = (self.split(layer(hidden)) for layer in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def logits(self, hidden: Tensor) -> Tensor:
        q, k = self.split(self.q_proj(hidden)), self.split(self.k_proj(hidden))
        return (q @ k.mT / math.sqrt(q.shape[-1])).detach()


CAUSAL = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
PADDED = torch.ones(SAMPLES, 1, 1, TOKENS, dtype=torch.bool)
PADDED[1, ..., 6:] = PADDED[3, ..., 3:] = False
ADDED = torch.zeros(TOKENS, TOKENS).masked_fill(~CAUSAL, torch.finfo(torch.float32).min)


def eager(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return F.dropout(F.softmax(scores.masked_fill(~CAUSAL, float("-inf")), dim=-1), 0.1, False) @ v


def einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * q.size(-1) ** -0.5
    return torch.einsum("bhqk,bhkd->bhqd", (scores + ADDED).softmax(-1), v)


WRITTEN = {
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), CAUSAL),
    "boolean mask": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=PADDED), PADDED),
    "added mask": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, ADDED), CAUSAL),
    "eager": (eager, CAUSAL),
    "einsum": (einsum, CAUSAL),
}


def by_hand(logits: Tensor, allowed: Tensor) -> tuple[float, float]:
    """Largest logit and mean relative entropy, query by query."""
    largest, entropies = 0.0, []
    for sample in range(len(logits)):
        for head in range(HEADS):
            rows = []
            for query in range(TOKENS):
                keys = logits[sample, head, query][allowed.expand(logits.shape)[sample, head, query]].double()
                largest = max(largest, float(keys.abs().max()))
                if len(keys) > 1:
                    weights = keys.exp() / keys.exp().sum()
                    rows.append(-float((weights * weights.log()).sum()) / math.log(len(keys)))
            entropies.append(sum(rows) / len(rows))
    return largest, sum(entropies) / len(entropies)


@pytest.mark.parametrize("way", WRITTEN)
def test_logits_and_entropy_are_those_of_all_queries(way: str) -> None:
    attend, allowed = WRITTEN[way]
    model = Attention(attend)
    (seen,) = record(model, sequences()).attention
    largest, entropy = by_hand(model.logits(sequences()), allowed)
    assert seen.largest_logit == pytest.approx(largest, rel=1e-5)
    assert seen.entropy == pytest.approx(entropy, rel=1e-5)
    assert entropy < 0.9, "the test must be able to reject uniform weights"
    assert (seen.module, seen.queries, seen.keys, seen.heads) == ("", TOKENS, TOKENS, SAMPLES * HEADS)
    assert (seen.queries_from, seen.keys_from) == ("q_proj", "k_proj")
    assert seen.normalizes_keys


@pytest.mark.parametrize("batch_first", [True, False])
def test_the_attention_of_torch_is_that_of_its_weights(batch_first: bool) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
            with torch.no_grad():
                self.attention.in_proj_weight.mul_(4)
                self.attention.in_proj_bias.normal_()

        def forward(self, hidden: Tensor) -> Tensor:
            hidden = hidden if batch_first else hidden.transpose(0, 1)
            padding = ~PADDED[:, 0, 0]
            out = self.attention(hidden, hidden, hidden, attn_mask=~CAUSAL, key_padding_mask=padding)[0]
            return out if batch_first else out.transpose(0, 1)

    model = Net()
    (seen,) = record(model, sequences()).attention
    query, key = F.linear(sequences(), model.attention.in_proj_weight, model.attention.in_proj_bias).split(WIDTH, -1)[
        :2
    ]
    query, key = (one.detach().unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (query, key))
    largest, entropy = by_hand(query @ key.mT / math.sqrt(WIDTH // HEADS), CAUSAL & PADDED)
    assert seen.largest_logit == pytest.approx(largest, rel=1e-5)
    assert seen.entropy == pytest.approx(entropy, rel=1e-5)
    assert seen.queries_from == seen.module == "attention"


def test_heads_that_share_keys_are_compared_with_them() -> None:
    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.queries, self.keys = nn.Linear(WIDTH, 32), nn.Linear(WIDTH, 16)

        def forward(self, hidden: Tensor) -> Tensor:
            q, k = self.queries(hidden).unflatten(-1, (4, 8)), self.keys(hidden).unflatten(-1, (2, 8))
            q, k = q.transpose(1, 2), k.transpose(1, 2)
            return F.scaled_dot_product_attention(q, k, k, enable_gqa=True).transpose(1, 2).flatten(2)

    model = Grouped()
    (seen,) = record(model, sequences()).attention
    q = model.queries(sequences()).unflatten(-1, (4, 8)).transpose(1, 2)
    k = model.keys(sequences()).unflatten(-1, (2, 8)).transpose(1, 2).repeat_interleave(2, 1)
    assert seen.largest_logit == pytest.approx(float((q @ k.mT).detach().abs().max()) / math.sqrt(8), rel=1e-5)


def test_uniform_and_one_hot_heads_are_counted() -> None:
    uniform, sharp = torch.zeros(1, 5, 7), 40 * torch.eye(7)[None, :5]
    both = attention_weights(torch.cat([uniform, sharp, torch.randn(2, 5, 7)]))
    assert (both.uniform_heads, both.one_hot_heads, both.heads) == (0.25, 0.25, 4)
    assert attention_weights(uniform).entropy == pytest.approx(1.0)
    assert attention_weights(sharp).entropy == pytest.approx(0.0, abs=1e-6)


def test_queries_that_see_one_key_or_none_are_counted_but_not_the_first() -> None:
    logits = torch.randn(2, 6, 6)
    alone = torch.eye(6, dtype=torch.bool).expand(2, 6, 6)
    assert attention_weights(logits, alone).lonely_queries == 1.0
    assert math.isnan(attention_weights(logits, alone).entropy)
    assert attention_weights(logits, alone & False).lonely_queries == 1.0
    causal = torch.ones(2, 6, 6, dtype=torch.bool).tril()
    assert attention_weights(logits, causal).lonely_queries == 0.0
    assert attention_weights(torch.randn(2, 6, 1)).lonely_queries == 0.0  # one key by shape, not by a mask


def over(axis: int, transposed: bool = False) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if transposed:  # values on the left, keys in the rows
            return (v.mT @ torch.softmax(k @ q.mT, dim=axis)).mT
        return torch.softmax(q @ k.mT, dim=axis).matmul(v)

    return attend


@pytest.mark.parametrize(
    ("attend", "right"),
    [(over(-1), True), (over(3), True), (over(-2), False), (over(1), False), (over(-2, True), True),
     (over(-1, True), False)],
)  # fmt: skip
def test_a_softmax_must_be_over_the_axis_that_the_values_are_summed_along(
    attend: Callable[[Tensor, Tensor, Tensor], Tensor], right: bool
) -> None:
    (seen,) = record(Attention(attend), sequences()).attention
    assert seen.normalizes_keys is right


def test_other_softmaxes_are_no_attention() -> None:
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.pool, self.head = nn.Linear(WIDTH, TOKENS), nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 5)

        def forward(self, hidden: Tensor) -> Tensor:
            routed = torch.softmax(torch.einsum("btd,ed->bte", hidden, self.gate.weight), -1) @ hidden
            pooled = (self.pool(routed).softmax(1) * hidden).sum(1)
            return self.head(pooled).softmax(-1)

    assert record(Gated(), sequences()).attention == ()


def test_long_sequences_are_measured_from_few_queries() -> None:
    calls: list[AttentionCall] = []
    for tokens in (64, 512):
        model = Attention(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), scale=1.0)
        calls += record(model, sequences(8, tokens)).attention
    assert [call.heads for call in calls] == [8, 8]  # of four samples
    assert calls[0].entropy == pytest.approx(calls[1].entropy, abs=0.02)


def test_weights_that_are_frozen_are_seen_too() -> None:
    model = Attention(eager).requires_grad_(False)
    (seen,) = record(model, sequences()).attention
    assert seen.queries_from == "q_proj"
