"""`confirm` takes whatever `diagnose` takes: every form of a batch, of an output and of a loss."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import orthoscope
from orthoscope.prescriptions._baselines import comparable, constant_loss, next_token_cross_entropy, shallow_network
from orthoscope.prescriptions._tasks import training_task
from orthoscope.probe.batches import calls_of
from orthoscope.probe.losses import cross_entropy
from orthoscope.probe.samples import Call

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(48, 6, generator=GENERATOR)
CLASSES = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
TIME = torch.randint(10, (48,), generator=GENERATOR)
IDS = torch.randint(7, (32, 5), generator=GENERATOR)
EDGES = torch.stack([torch.arange(48), torch.arange(48).roll(1)])


def seeded(make: Any) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made: nn.Module = make()
        return made


class Denoiser(nn.Module):
    """Diffusion: noise is predicted from noisy data and the time."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.first, self.last = nn.Embedding(10, 64), nn.Linear(6, 64), nn.Linear(64, 6)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        made: Tensor = self.last((self.first(x) + self.embedding(t)).relu())
        return made


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return self.body(first), self.body(second)


def contrastive(output: tuple[Tensor, Tensor], same: Tensor) -> Tensor:
    distance = (output[0] - output[1]).norm(dim=-1)
    return torch.where(same, distance.square(), (1 - distance).clamp_min(0).square()).mean()


@dataclass
class Output:
    logits: Tensor
    loss: Tensor | None = None


class Language(nn.Module):
    """As models of transformers: a loss inside, of the next token, if there are labels."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 64), nn.Linear(64, 7)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Output:
        logits = self.head(self.embedding(input_ids))
        return Output(logits, None if labels is None else next_token_cross_entropy(logits, labels))


class Graph:
    def __init__(self, **attributes: Tensor) -> None:
        self.__dict__.update(attributes)


class MessagePassing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 64), nn.Linear(64, 3)

    def forward(self, graph: Any) -> Tensor:
        hidden = self.first(graph.x).relu()
        source, destination = graph.edge_index
        made: Tensor = self.last(hidden + 0.1 * torch.zeros_like(hidden).index_add(0, destination, hidden[source]))
        return made


class Autoencoder(nn.Module):
    """Computes a loss that nobody else can compute."""

    def __init__(self) -> None:
        super().__init__()
        self.code, self.back = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"loss": (self.back(self.code(x)) - x).square().mean()}


SUCCESSOR = (IDS[:, :1] + torch.arange(5)) % 7
NOISE = X @ torch.randn(6, 6, generator=GENERATOR)

# model, batches, loss, what guessing is
FORMS: dict[str, tuple[Any, Any, Any, str]] = {
    "pair": (
        lambda: nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)),
        (X, CLASSES),
        None,
        "best constant output",
    ),
    "three": (Denoiser, (X, TIME, NOISE), F.mse_loss, "best constant output"),
    "nested": (Denoiser, ((X, TIME), NOISE), None, "best constant output"),
    "siamese": (Siamese, ((X, X.flip(0)), CLASSES.flip(0) == CLASSES), contrastive, "best constant output"),
    "labels inside": (Language, {"input_ids": SUCCESSOR, "labels": SUCCESSOR}, None, "best constant output"),
    "labels outside": (
        Language,
        {"input_ids": SUCCESSOR, "labels": SUCCESSOR.roll(-1, 1)},
        lambda output, labels: cross_entropy(output.logits, labels),
        "best constant output",
    ),
    "graph": (MessagePassing, Graph(x=X, edge_index=EDGES, y=CLASSES), None, "best constant output"),
    "loss of the output": (lambda: nn.Linear(6, 6), X, lambda output: (output - 1).square().mean(), ""),
    "loss inside": (Autoencoder, X, None, "before training"),
    "list of dicts": (
        lambda: nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3)),
        [{"image": X, "label": CLASSES}],
        None,
        "best constant output",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_whatever_can_be_diagnosed_can_be_confirmed(form: str) -> None:
    make, batches, loss, guess = FORMS[form]
    found = orthoscope.confirm(seeded(make), batches, loss, steps=40, learning_rates=(0.03,))
    assert found.source == "your data"
    if guess:
        assert found.trains, found.summary
        assert found.guess == guess
        assert found.summary.count(guess) == 1


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "muon"])
def test_every_optimizer_has_three_rates_of_its_own_and_learns(optimizer: str) -> None:
    network = seeded(lambda: nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3)))
    found = orthoscope.confirm(network, (X, CLASSES), optimizer=optimizer, steps=60)
    assert len({run.learning_rate for run in found.runs}) == 3
    assert found.trains, found.summary


def test_a_batch_with_a_target_is_trained_on_itself_and_one_without_on_embedded_data() -> None:
    model = nn.Linear(6, 10)
    assert training_task(model, None, (X, CLASSES), None, 10, 0).source == "your batch"
    assert training_task(model, None, X, None, 10, 0).source == "the embedded digits"
    assert training_task(model, None, X, lambda output: output.mean(), 10, 0).source == "your batch"
    assert training_task(Autoencoder(), None, X, None, 10, 0).source == "your batch"
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, CLASSES), batch_size=16)
    task = training_task(model, None, loader, None, 10, 0)
    assert (task.source, len(task.calls)) == ("your data", 3)


def test_a_large_batch_is_cut_into_shuffled_pieces_and_a_graph_is_not() -> None:
    many, labels = torch.randn(150, 6), torch.arange(150)
    task = training_task(nn.Linear(6, 10), (many, labels), None, None, 3, 0)
    assert [call.samples for call in task.calls] == [64, 64, 22]
    drawn = torch.cat([call.target for call in task.calls])
    assert sorted(drawn.tolist()) == labels.tolist() != drawn.tolist()
    graph = Graph(x=many, edge_index=EDGES, y=labels % 3)
    assert [call.samples for call in training_task(MessagePassing(), graph, None, None, 2, 0).calls] == [150, 150]


def test_the_loss_inside_a_model_is_recognized_only_if_it_is_that_of_its_logits() -> None:
    model = Language()
    calls = tuple(calls_of(model, [{"input_ids": IDS, "labels": IDS}]))
    known = comparable(calls, model(IDS, IDS), None)
    assert known is not None
    assert known.loss is next_token_cross_entropy
    guessing = constant_loss(known)
    shares = IDS[:, 1:].flatten().bincount().double()
    assert guessing == pytest.approx(torch.distributions.Categorical(probs=shares).entropy().item(), abs=1e-3)
    other = model(IDS, IDS)
    assert other.loss is not None
    other.loss = other.loss * 2
    assert comparable(calls, other, None) is None


def test_the_shallow_network_reads_all_numbers_and_leaves_the_rest() -> None:
    calls = (Call((X, TIME, X[:, 0])), Call((X[:3], TIME[:3], X[:3, 0])))
    shallow = shallow_network(calls, torch.zeros(48, 2, 4), seed=0)
    assert shallow is not None
    assert shallow(*calls[1].args).shape == (3, 2, 4)
    torch.testing.assert_close(shallow(X, TIME + 1, X[:, 0]), shallow(*calls[0].args))
    assert not torch.equal(shallow(X, TIME, X[:, 1]), shallow(*calls[0].args))
    assert shallow_network(calls, (torch.zeros(48, 2),), seed=0) is None
    assert shallow_network(calls, torch.zeros(7, 2), seed=0) is None, "an output that does not count samples"


class Frozen(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).detach()


@pytest.mark.slow
def test_a_network_without_gradient_or_that_diverges_does_not_train() -> None:
    diagnosis = orthoscope.diagnose(nn.Linear(6, 3), X)
    options: dict[str, Any] = {"steps": 10, "learning_rates": (0.1,), "diagnosis": diagnosis}
    stuck = orthoscope.confirm(Frozen(6, 3), (X, CLASSES), **options)
    assert stuck.outcome == "does not train"
    assert stuck.runs[0].history.stopped == "no gradient"
    wild = orthoscope.confirm(nn.Linear(6, 3), (X, CLASSES), lambda out, y: out.mean() / 0, **options)
    assert wild.outcome == "does not train"


@pytest.mark.parametrize(
    ("model", "batches", "sentence"),
    [
        (Denoiser(), X, "takes 2 arguments: give a tuple of them"),
        (Siamese(), ((X, X), CLASSES), "the model returns a tuple, which cannot be compared with the target"),
        (nn.Linear(6, 3), [X], "brings no target and the model returns no loss"),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(model: nn.Module, batches: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        orthoscope.confirm(model, batches, steps=10)
