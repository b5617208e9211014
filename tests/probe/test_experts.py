"""Tokens of every expert are counted, whether a mixture is written by hand or a stock one."""

import math

import pytest
import torch
from torch import Tensor, nn

from orthoscope.probe import ExpertLoad, record
from probe.readings import batch

EXPERTS, WIDTH = 6, 16


class Mixture(nn.Module):
    """A mixture as people write it; counts what its experts get."""

    def __init__(self, per_token: int = 2, pick: str = "topk", bias: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(EXPERTS))
        self.per_token, self.pick = per_token, pick
        self.given = [0] * EXPERTS
        with torch.no_grad():
            self.gate.bias[0] += bias

    def forward(self, tokens: Tensor) -> Tensor:
        shape, tokens = tokens.shape, tokens.reshape(-1, WIDTH)
        shares = self.gate(tokens).softmax(dim=-1)
        if self.pick == "topk":
            weights, chosen = torch.topk(shares, self.per_token, dim=-1)
        elif self.pick == "argmax":
            chosen = shares.argmax(-1, keepdim=True)
            weights = shares.gather(-1, chosen)
        else:
            weights, chosen = shares.max(dim=-1, keepdim=True)
        out = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            rows, places = (chosen == index).nonzero(as_tuple=True)
            self.given[index] = len(rows)
            if len(rows):
                out = out.index_add(0, rows, expert(tokens[rows]) * weights[rows, places, None])
        return out.reshape(shape)


def network(mixture: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), mixture, nn.Linear(WIDTH, 4))


@pytest.mark.parametrize(("pick", "per_token"), [("topk", 2), ("topk", 1), ("argmax", 1), ("max", 1)])
def test_the_load_is_what_the_experts_got(pick: str, per_token: int) -> None:
    model = network(Mixture(per_token, pick))
    tokens = torch.randn(8, 5, WIDTH)
    (load,) = record(model, tokens).experts
    model(tokens)
    given = torch.tensor(model[1].given).double()
    assert load.load == pytest.approx((given / given.sum()).tolist())
    assert (load.module, load.per_token, load.tokens, load.experts) == ("1", per_token, 40, EXPERTS)
    assert 0 < load.balance < 1


def test_a_mixture_that_runs_twice_is_one_row() -> None:
    mixture = Mixture()
    (once,) = record(network(mixture), batch()).experts
    (twice,) = record(nn.Sequential(mixture, mixture), batch()).experts
    assert (once.tokens, twice.tokens) == (12, 24)


def test_unused_experts_are_listed_as_such() -> None:
    recording = record(network(Mixture(per_token=1, bias=50.0)), batch())
    (load,) = recording.experts
    assert load.unused == tuple(range(1, EXPERTS))
    assert (load.effective, load.balance) == (1.0, 0.0)
    assert recording.unobserved["1.experts.3"] == recording.unobserved["1.experts.3.0"]
    assert "no token" in recording.unobserved["1.experts.3"]
    assert "no token" not in recording.unobserved.get("1.experts.0", "")
    assert "no token" not in recording.unobserved["1.experts"]


def test_effective_number_and_balance_of_a_load() -> None:
    even = ExpertLoad("", 2, 8, (0.25,) * 4)
    assert (even.effective, even.balance) == (pytest.approx(4.0), pytest.approx(1.0))
    same_two = ExpertLoad("", 2, 8, (0.5, 0.5, 0.0, 0.0))
    assert (same_two.effective, same_two.balance) == (pytest.approx(2.0), pytest.approx(0.0))
    assert math.isnan(ExpertLoad("", 2, 8, (0.5, 0.5)).balance)


def test_a_soft_mixture_shares_tokens_by_its_weights() -> None:
    class Soft(Mixture):
        def forward(self, tokens: Tensor) -> Tensor:
            shares = self.gate(tokens).softmax(-1)
            return sum(shares[:, i, None] * expert(tokens) for i, expert in enumerate(self.experts))

    model = network(Soft())
    (load,) = record(model, batch()).experts
    expected = model[1].gate(model[0](batch())).softmax(-1).mean(0).detach()
    assert load.load == pytest.approx(expected.tolist(), rel=1e-5)


def test_a_softmax_or_a_pick_elsewhere_is_no_router() -> None:
    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))

        def forward(self, hidden: Tensor) -> Tensor:
            for layer in self.layers:
                hidden = layer(hidden)
            hidden.topk(4)
            return hidden.softmax(-1)

    assert record(Head(), batch()).experts == ()
