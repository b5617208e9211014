"""Networks as people write them: what their inside shows is found and named, and healthy ones raise no alarm."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope import Diagnosis, Finding, State, Verdict, diagnose


def finding(diagnosis: Diagnosis, check: str) -> Finding:
    return next(one for one in diagnosis.findings if one.check == check)


def normal(*sizes: int) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    """A block of a GPT with separate projections; `mask` and `axis` may be wrong."""

    def __init__(self, width: int = 64, mask: int | None = 0, axis: int = -1) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width) for _ in range(4))
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.mask, self.axis = mask, axis

    def attend(self, hidden: Tensor) -> Tensor:
        q, k, v = (
            layer(hidden).unflatten(-1, (4, -1)).transpose(1, 2) for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if self.mask is None:  # every token sees itself alone
            scores = scores.masked_fill(~torch.eye(scores.shape[-1], dtype=torch.bool), -1e9)
        return self.o_proj((scores.softmax(self.axis) @ v).transpose(1, 2).flatten(2))

    def forward(self, hidden: Tensor) -> Tensor:
        hidden = hidden + self.attend(self.ln_1(hidden))
        return hidden + self.mlp(self.ln_2(hidden))


def gpt(depth: int = 4, loud: tuple[str, ...] = (), scale: float = 40.0, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    blocks = [Block(**options) for _ in range(depth)]
    with torch.no_grad():
        for block in blocks:
            for name in loud:
                getattr(block, name).weight.mul_(scale)
    return nn.Sequential(nn.Embedding(50, 64), *blocks, nn.LayerNorm(64), nn.Linear(64, 50))


IDS = torch.randint(0, 50, (16, 24), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("loud", [("q_proj", "k_proj"), ("k_proj",)])
def test_saturated_attention_is_blamed_on_the_projection_that_is_too_large(loud: tuple[str, ...]) -> None:
    diagnosis = diagnose(gpt(loud=loud, scale=40.0 if len(loud) == 2 else 400.0), IDS)
    weights = finding(diagnosis, "attention weights")
    assert weights.state is State.FOUND
    assert weights.layer is not None
    assert weights.layer.endswith(loud)
    for one in diagnosis.findings:
        if one.state is State.FOUND and one.layer is not None:
            assert one.layer.endswith(("q_proj", "k_proj")), f"{one.check} blames {one.layer}"


def test_attention_at_initialization_is_clean() -> None:
    diagnosis = diagnose(gpt(), IDS)
    for check in ("attention weights", "attention logits", "attention mask", "attention axis"):
        assert finding(diagnosis, check).state is State.CLEAN
    assert diagnosis.verdict is Verdict.HEALTHY


def test_a_mask_that_leaves_one_token_and_a_softmax_over_queries_are_named() -> None:
    alone = finding(diagnose(gpt(mask=None), IDS), "attention mask")
    assert (alone.state, alone.layer) == (State.FOUND, "1")
    over_queries = finding(diagnose(gpt(axis=-2), IDS), "attention axis")
    assert (over_queries.state, over_queries.layer) == (State.FOUND, "1")


def test_networks_without_attention_recurrence_or_experts_are_not_checked_for_them() -> None:
    diagnosis = diagnose(nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)), normal(16, 16))
    for check in ("attention weights", "gradient over time", "expert balance"):
        assert finding(diagnosis, check).state is State.NOT_CHECKED
    assert "attention" not in diagnosis.summary


class Scaled(nn.Module):
    """A block that normalizes after the branch; the scale of its branch's weights has no effect but on gradients."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
        self.inner, self.outer = nn.BatchNorm1d(64), nn.BatchNorm1d(64)
        with torch.no_grad():
            self.a.weight.mul_(scale)
            self.b.weight.mul_(scale)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + 0.2 * self.outer(self.b(F.relu(self.inner(self.a(hidden)))))


def test_gradients_that_grow_inside_branches_alone_do_not_explode() -> None:
    torch.manual_seed(0)
    shrinking = nn.Sequential(nn.Linear(64, 64), *(Scaled(2.0 ** (i - 12)) for i in range(24)), nn.Linear(64, 10))
    diagnosis = diagnose(shrinking, normal(64, 64))
    norms = [layer.gradient_norm for layer in diagnosis.layers if layer.name.endswith(".b")]
    assert norms[0] / norms[-1] > 1e5, "the weight layers by themselves explode"
    assert finding(diagnosis, "gradient growth").state is State.CLEAN
    assert finding(diagnosis, "largest gradient").state is State.CLEAN
    assert abs(diagnosis.gradients.growth) < 2


def test_gradients_that_explode_along_the_stream_are_found() -> None:
    class Amplifying(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.branch = nn.Linear(64, 64, bias=False)
            nn.init.orthogonal_(self.branch.weight, gain=1.5)

        def forward(self, hidden: Tensor) -> Tensor:
            return hidden + self.branch(hidden)

    torch.manual_seed(0)
    diagnosis = diagnose(nn.Sequential(*(Amplifying() for _ in range(40))), normal(64, 64))
    assert diagnosis.recording.trunk is not None
    assert finding(diagnosis, "gradient growth").severity is Verdict.SICK


class Patches(nn.Module):
    """A small vision transformer on patches of 4×4."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(1, 64, 4, 4)
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encoder(self.patches(images).flatten(2).transpose(1, 2)).mean(1))


def test_patches_of_a_constant_background_are_no_collapse_of_tokens() -> None:
    images = torch.zeros(16, 1, 28, 28)
    images[:, :, 8:20, 8:20] = normal(16, 1, 12, 12)
    diagnosis = diagnose(Patches(), images)
    assert finding(diagnosis, "token rank").state is State.CLEAN
    assert diagnosis.verdict is Verdict.HEALTHY, diagnosis.summary


def test_tokens_that_the_network_itself_merges_are_a_collapse() -> None:
    class Merging(nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            return 1e-4 * hidden + hidden.mean(1, keepdim=True)

    model = nn.Sequential(nn.Embedding(50, 64), nn.Linear(64, 64), Merging(), nn.Linear(64, 64), nn.Tanh())
    assert finding(diagnose(model, IDS), "token rank").state is State.FOUND


class Reader(nn.Module):
    """Embedding, recurrent layers, head."""

    def __init__(self, kind: str, layers: int = 1, scale: float = 1.0, last: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 32)
        self.rnn = getattr(nn, kind)(32, 64, layers, batch_first=True)
        self.head, self.last = nn.Linear(64, 50), last
        with torch.no_grad():
            for weight in self.rnn.parameters():
                weight.mul_(scale)

    def forward(self, ids: Tensor) -> Tensor:
        outputs = self.rnn(self.embed(ids))[0]
        return self.head(outputs[:, -1] if self.last else outputs)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("last", [True, False])
def test_a_recurrent_network_at_its_default_initialization_is_healthy(kind: str, layers: int, last: bool) -> None:
    diagnosis = diagnose(Reader(kind, layers, last=last), IDS)
    assert diagnosis.verdict is Verdict.HEALTHY, diagnosis.summary
    assert finding(diagnosis, "gradient over time").state is State.CLEAN
    assert finding(diagnosis, "saturation over time").state is State.CLEAN
    assert finding(diagnosis, "gradient growth").state is State.NOT_CHECKED  # one row is no depth


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_saturated_recurrent_network_is_not_healthy(kind: str) -> None:
    diagnosis = diagnose(Reader(kind, scale=40.0), IDS)
    saturated = finding(diagnosis, "saturation over time")
    assert (saturated.state, saturated.layer) == (State.FOUND, "rnn")
    assert diagnosis.verdict is not Verdict.HEALTHY


def test_gradients_that_explode_over_time_are_found_and_lost_ones_too() -> None:
    loud, quiet = Reader("RNN"), Reader("RNN")
    with torch.no_grad():
        nn.init.orthogonal_(loud.rnn.weight_hh_l0, gain=3.0)
        loud.rnn.weight_ih_l0.mul_(0.01)
        loud.embed.weight.mul_(1e-12)  # so small that tanh stays linear
        for bias in (loud.rnn.bias_ih_l0, loud.rnn.bias_hh_l0):
            bias.zero_()
        quiet.rnn.weight_hh_l0.mul_(0.001)
    growth = finding(diagnose(loud, IDS), "gradient over time")
    assert (growth.state, growth.severity) == (State.FOUND, Verdict.SICK)
    assert growth.measured is not None
    assert growth.measured.value == pytest.approx(23 * torch.tensor(3.0).log().item(), rel=0.05)
    lost = finding(diagnose(quiet, IDS), "gradient decay over time")
    assert (lost.state, lost.severity, lost.layer) == (State.FOUND, Verdict.AT_RISK, "rnn")


class Mixture(nn.Module):
    def __init__(self, collapsed: bool) -> None:
        super().__init__()
        self.gate = nn.Linear(32, 8)
        self.experts = nn.ModuleList(nn.Linear(32, 32) for _ in range(8))
        if collapsed:
            nn.init.zeros_(self.gate.weight)
            with torch.no_grad():
                self.gate.bias.copy_(torch.arange(8.0))

    def forward(self, hidden: Tensor) -> Tensor:
        weights, chosen = self.gate(hidden).softmax(-1).topk(2)
        out = torch.zeros_like(hidden)
        for index, expert in enumerate(self.experts):
            rows, places = (chosen == index).nonzero(as_tuple=True)
            if len(rows):
                out = out.index_add(0, rows, expert(hidden[rows]) * weights[rows, places, None])
        return hidden + out


def experts(collapsed: bool) -> Diagnosis:
    torch.manual_seed(0)
    layers = [nn.Linear(32, 32), Mixture(collapsed), nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 5)]
    return diagnose(nn.Sequential(*layers), normal(64, 32))


def test_a_router_that_sends_all_tokens_to_the_same_experts_is_named() -> None:
    found = finding(experts(collapsed=True), "expert balance")
    assert (found.state, found.layer) == (State.FOUND, "1")
    assert "unbalanced experts" in str(experts(collapsed=True))
    assert finding(experts(collapsed=False), "expert balance").state is State.CLEAN


def test_a_batch_with_too_few_tokens_says_nothing_of_a_router() -> None:
    torch.manual_seed(0)
    few = diagnose(nn.Sequential(nn.Linear(32, 32), Mixture(collapsed=True)), normal(4, 32))
    assert finding(few, "expert balance").state is State.NOT_CHECKED


def test_tables_of_the_inside_are_in_the_terminal_view() -> None:
    text = str(diagnose(gpt(), IDS))
    assert "one-hot" in text
    assert "residual sums" in text
    assert "mixture of experts" in str(experts(collapsed=False))
    over_time = str(diagnose(Reader("LSTM"), IDS))
    assert "recurrent layer" in over_time
    assert "attention" not in over_time.split("clean")[0]


def test_a_deep_diagnosis_notes_samples_that_leak() -> None:
    class Centered(nn.Module):
        def forward(self, hidden: Tensor) -> Tensor:
            return hidden - hidden.mean(0)

    torch.manual_seed(0)
    leaky = nn.Sequential(nn.Linear(16, 16), Centered(), nn.Linear(16, 4))
    shallow, deep = diagnose(leaky, normal(8, 16)), diagnose(leaky, normal(8, 16), deep=True)
    assert shallow.leaks is None
    assert deep.leaks is not None
    assert any(note.startswith("samples leak") for note in deep.notes)
    clean = diagnose(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4)), normal(8, 16), deep=True)
    assert clean.leaks is not None
    assert clean.leaks.found == ()
    assert not any("leak" in note for note in clean.notes)
