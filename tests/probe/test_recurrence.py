"""The gradient over time steps is that of autograd by hand; saturation is that of gates computed step by step."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from orthoscope.probe import TimeProfile, record

STEPS, WIDTH = 9, 12
KINDS = ("RNN", "LSTM", "GRU")


def series(samples: int = 4) -> Tensor:
    return torch.randn(samples, STEPS, 6, generator=torch.Generator().manual_seed(0))


class Reader(nn.Module):
    """A recurrent layer and a head, as people write them; the head reads the last step, or all."""

    def __init__(self, kind: str, last: bool = True, **options: Any) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.read = getattr(nn, kind)(6, WIDTH, batch_first=True, **options)
        self.head = nn.Linear(WIDTH * (1 + bool(options.get("bidirectional"))), 3)
        self.last = last

    def forward(self, inputs: Tensor) -> Tensor:
        outputs, _ = self.read(inputs)
        return self.head(outputs[:, -1] if self.last else outputs)


def loss(output: Tensor) -> Tensor:
    return output.square().sum()


def profile(model: nn.Module, inputs: Tensor) -> TimeProfile:
    (found,) = record(model, inputs, loss).time
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [True, False])
def test_the_gradient_at_every_step_is_autograds(kind: str, last: bool) -> None:
    model, inputs = Reader(kind, last, num_layers=2), series().requires_grad_()
    found = profile(model, series())
    loss(model(inputs)).backward()
    expected = inputs.grad.double().norm(dim=(0, 2)).log()
    assert found.log_norms == pytest.approx(expected.tolist(), rel=1e-5)
    assert found.growth == pytest.approx(float(expected[0] - expected[-1]), rel=1e-5)
    assert found.growth_per_step == pytest.approx(found.growth / (STEPS - 1))
    assert found.loss_at == ("the last step" if last else "all steps")
    assert (found.module, found.kind, found.steps) == ("read", kind, STEPS)


def test_what_a_skip_around_the_layer_brings_is_not_counted() -> None:
    class Skipped(Reader):
        def forward(self, inputs: Tensor) -> Tensor:
            outputs, _ = self.read(inputs)
            return self.head(outputs[:, -1]) + inputs.mean((1, 2), keepdim=True)[..., 0]

    plain, skipped = Reader("GRU"), Skipped("GRU")
    direction = torch.randn(4, 3)
    of_plain, of_skipped = (
        record(model, series(), lambda output: (output * direction).sum()).time[0] for model in (plain, skipped)
    )
    assert of_plain.log_norms == pytest.approx(of_skipped.log_norms, rel=1e-6)


def test_packed_sequences_are_split_by_their_sizes() -> None:
    class Packed(Reader):
        def forward(self, inputs: Tensor) -> Tensor:
            packed = pack_padded_sequence(inputs, torch.tensor([9, 7, 5, 3]), batch_first=True)
            return self.head(self.read(packed)[1][-1])

    model, inputs = Packed("GRU"), series().requires_grad_()
    found = profile(model, series())
    loss(model(inputs)).backward()
    assert found.log_norms == pytest.approx(inputs.grad.double().norm(dim=(0, 2)).log().tolist(), rel=1e-5)


@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_a_cell_in_a_loop_has_the_gradient_of_its_states(kind: str) -> None:
    class Loop(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.head = getattr(nn, kind)(6, WIDTH), nn.Linear(WIDTH, 3)
            self.states: list[Tensor] = []

        def forward(self, inputs: Tensor) -> Tensor:
            self.states.clear()
            state: Any = torch.zeros(len(inputs), WIDTH)
            state = (state, state) if kind == "LSTMCell" else state
            for step in range(inputs.shape[1]):
                state = self.cell(inputs[:, step], state)
                hidden = state[0] if isinstance(state, tuple) else state
                self.states.append(hidden)
            return self.head(hidden)

    model = Loop()
    found = profile(model, series())
    output = model(series())
    for state in model.states:
        state.retain_grad()
    loss(output).backward()
    expected = [float(state.grad.norm().log()) for state in model.states]
    assert found.log_norms == pytest.approx(expected, rel=1e-4)
    assert found.kind == kind
    assert found.saturation is not None


def test_the_reach_is_how_far_back_a_thousandth_of_the_gradient_comes() -> None:
    inputs = torch.randn(4, 40, 6, generator=torch.Generator().manual_seed(0))
    found = profile(Reader("RNN"), inputs)
    above = [norm > max(found.log_norms) - math.log(1000) for norm in found.log_norms]
    assert found.reach == 40 - above.index(True)
    assert 0 < found.reach < 40, "the test must see a gradient that fades"


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"bidirectional": True, "num_layers": 2}, {"bias": False}])
def test_saturation_of_an_lstm_is_that_of_its_gates(options: dict[str, Any]) -> None:
    model = Reader("LSTM", **options)
    with torch.no_grad():
        for weight in model.read.parameters():
            weight.mul_(8)
    found = profile(model, series()).saturation
    assert found == pytest.approx(share_by_cells(model.read, series()), abs=1e-3)
    assert 0.1 < share_by_cells(model.read, series()) < 0.95


def share_by_cells(layer: nn.LSTM, inputs: Tensor) -> float:
    """Step by step with cells; the gates of the direction that reads forward."""
    shares, hidden = [], inputs
    for index in range(layer.num_layers):
        outputs = []
        for suffix in ("", "_reverse")[: 1 + layer.bidirectional]:
            cell = nn.LSTMCell(hidden.shape[-1], WIDTH, bias=layer.bias)
            with torch.no_grad():
                for name, weight in cell.named_parameters():
                    weight.copy_(getattr(layer, f"{name}_l{index}{suffix}"))
            state, seen = (torch.zeros(len(inputs), WIDTH), torch.zeros(len(inputs), WIDTH)), []
            for step in range(STEPS) if not suffix else reversed(range(STEPS)):
                gates = hidden[:, step] @ cell.weight_ih.T + state[0] @ cell.weight_hh.T
                gates = gates + (cell.bias_ih + cell.bias_hh if layer.bias else 0)
                i, f, g, o = gates.chunk(4, 1)
                if not suffix:
                    sizes = [(2 * torch.sigmoid(gate) - 1).abs() > 0.97 for gate in (i, f, o)] + [g.tanh().abs() > 0.97]
                    shares.append(float(torch.stack(sizes).double().mean()))
                state = cell(hidden[:, step], state)
                seen.append(state[0].detach())
            outputs.append(torch.stack(seen if not suffix else seen[::-1], 1))
        hidden = torch.cat(outputs, -1)
    return sum(shares) / len(shares)


def test_saturation_of_a_gru_and_of_a_plain_layer() -> None:
    for kind in ("GRU", "RNN"):
        calm, loud = Reader(kind), Reader(kind)
        with torch.no_grad():
            for weight in loud.read.parameters():
                weight.mul_(30)
        assert profile(calm, series()).saturation == 0.0
        assert profile(loud, series()).saturation > 0.6
    assert profile(Reader("RNN", nonlinearity="relu"), series()).saturation is None


def test_networks_without_recurrence_have_no_profile() -> None:
    assert record(nn.Linear(6, 6), series()).time == ()
