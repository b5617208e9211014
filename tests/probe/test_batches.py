"""The table of batch forms: what of each is an argument of `forward`, and what is the target."""

import copy
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orthoscope.probe import record
from orthoscope.probe.batches import as_call
from orthoscope.probe.losses import call_loss, loss_value, own_loss, takes_target
from orthoscope.probe.samples import Call, chosen_samples, divisible, first_samples

X, T, Y = torch.randn(12, 5), torch.arange(12), torch.arange(12) % 3
IMAGE = X.unsqueeze(-1)
MASK = X > 0


class One(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Two(nn.Module):
    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return x


class Masked(nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return x


class Labeled(nn.Module):
    """As models of transformers: the loss is computed inside, if there are labels."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        return input_ids


class AnyName(nn.Module):
    def forward(self, x: Tensor, **options: Any) -> Tensor:
        return x


class WholeDict(nn.Module):
    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return batch["x"]


class Unannotated(nn.Module):
    def forward(self, batch):  # type: ignore[no-untyped-def]
        return batch["x"]


class Graph(nn.Module):
    def forward(self, graph: Any) -> Tensor:
        out: Tensor = graph.x
        return out


class Nodes(nn.Module):
    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        return x


class Several(nn.Module):
    def forward(self, *tensors: Tensor) -> Tensor:
        return tensors[0]


Pair = namedtuple("Pair", ["image", "label"])
Named = namedtuple("Named", ["t", "x", "y"])


@dataclass
class Record:
    x: Tensor
    y: Tensor


class Data:
    """What torch_geometric's `Data` looks like from outside."""

    def __init__(self, **attributes: Tensor | None) -> None:
        self.__dict__.update(attributes)

    def keys(self) -> list[str]:
        return list(vars(self))


EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])
GRAPH = Data(edge_index=EDGES, x=X, y=Y, edge_attr=None)

# model, batch, whether the loss takes a target, then what is read: arguments, keyword arguments, target
TABLE: dict[str, tuple[nn.Module, Any, bool, tuple[Any, ...], dict[str, Any], Any]] = {
    "tensor": (One(), X, False, (X,), {}, None),
    "pair": (One(), (X, Y), False, (X,), {}, Y),
    "list": (One(), [X, Y], True, (X,), {}, Y),
    "two arguments": (Two(), (X, T), False, (X, T), {}, None),
    "two arguments and a target": (Two(), (X, T, Y), True, (X, T), {}, Y),
    "two arguments and a target, no loss": (Two(), (X, T, Y), False, (X, T), {}, Y),
    "nested": (Two(), ((X, T), Y), True, (X, T), {}, Y),
    "nested lists": (Two(), [[X, T], Y], False, (X, T), {}, Y),
    "nested dict": (Two(), ({"x": X, "t": T}, Y), True, (), {"x": X, "t": T}, Y),
    "siamese": (Two(), ((X, 2 * X), Y), True, (X, 2 * X), {}, Y),
    "pair as one argument": (One(), ((X, 2 * X), Y), True, ((X, 2 * X),), {}, Y),
    "list as one argument": (One(), [X, 2 * X, 3 * X], False, ([X, 2 * X, 3 * X],), {}, None),
    "optional argument": (Masked(), (X, MASK), False, (X, MASK), {}, None),
    "target, not an optional argument": (Masked(), (X, Y), True, (X,), {}, Y),
    "optional argument and target": (Masked(), (X, MASK, Y), True, (X, MASK), {}, Y),
    "any number": (Several(), (X, T), False, (X, T), {}, None),
    "any number and target": (Several(), (X, T, Y), True, (X, T), {}, Y),
    "dict": (Two(), {"t": T, "x": X}, False, (), {"t": T, "x": X}, None),
    "dict with target": (Two(), {"x": X, "t": T, "labels": Y}, True, (), {"x": X, "t": T}, Y),
    "labels for the model": (Labeled(), {"input_ids": X, "labels": Y}, False, (), {"input_ids": X, "labels": Y}, None),
    "labels for both": (Labeled(), {"input_ids": X, "labels": Y}, True, (), {"input_ids": X, "labels": Y}, Y),
    "any name, own loss": (AnyName(), {"x": X, "y": Y}, False, (), {"x": X, "y": Y}, None),
    "any name, a loss": (AnyName(), {"x": X, "y": Y}, True, (), {"x": X}, Y),
    "another name": (One(), {"image": X, "label": Y}, True, (X,), {}, Y),
    "whole dict": (WholeDict(), {"x": X, "label": Y}, True, ({"x": X, "label": Y},), {}, Y),
    "whole dict by name": (Unannotated(), {"x": X, "label": Y}, False, ({"x": X, "label": Y},), {}, Y),
    "whole dict of several": (One(), {"a": X, "b": T}, False, ({"a": X, "b": T},), {}, None),
    "namedtuple": (One(), Pair(X, Y), True, (X,), {}, Y),
    "namedtuple by name": (Two(), Named(T, X, Y), True, (), {"x": X, "t": T}, Y),
    "dataclass": (One(), Record(X, Y), True, (), {"x": X}, Y),
    "graph": (Graph(), GRAPH, False, (GRAPH,), {}, Y),
    "graph by name": (Nodes(), GRAPH, True, (), {"x": X, "edge_index": EDGES}, Y),
    "graph as tuple": (Nodes(), (X, EDGES, Y), True, (X, EDGES), {}, Y),
}


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return set(one) == set(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one is other


@pytest.mark.parametrize("form", TABLE)
def test_every_form_of_a_batch_is_read_as_arguments_and_target(form: str) -> None:
    model, batch, with_target, args, kwargs, target = TABLE[form]
    call = as_call(model, batch, with_target)
    assert same(call.args, args)
    assert same(dict(call.kwargs), kwargs)
    assert same(call.target, target)
    assert call.samples == 12


class Loader:
    """Some iterable that is not torch's."""

    def __init__(self, *batches: Any) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[Any]:
        return iter(self.batches)


@pytest.mark.parametrize("form", [name for name, row in TABLE.items() if row[2]])
def test_a_loader_stands_for_its_first_batch(form: str) -> None:
    model, batch, _, args, kwargs, target = TABLE[form]
    call = as_call(model, Loader(batch, None), with_target=True)
    assert same((call.args, dict(call.kwargs), call.target), (args, kwargs, target))


def test_a_loader_of_dicts_is_collated_by_torch() -> None:
    items = [{"image": image, "label": int(label)} for image, label in zip(X, Y, strict=True)]
    call = as_call(One(), torch.utils.data.DataLoader(items, batch_size=12))  # type: ignore[arg-type]
    assert same((call.args, call.target), ((X,), Y))


@pytest.mark.parametrize(
    ("model", "batch", "sentence"),
    [
        (Two(), X, r"a tensor of shape \(12, 5\), and the model's forward\(x, t\) takes 2 arguments: give a tuple"),
        (One(), (), "a tuple of 0, and the model's .* takes 1 arguments"),
        (Two(), (X, T, Y, Y), "a tuple of 4, and the model's .* takes 2 arguments"),
        (Two(), {"x": X, "time": T}, "entries 'x', 'time', and .* has no argument 'time': name the entries"),
        (Two(), {"x": X}, "needs 't' too"),
        (Nodes(), Data(x=X, edge_index=EDGES, y=Y).__class__, "a batch is a tensor, tuple, dict or DataLoader"),
        (One(), iter([X]), "a batch is a tensor, tuple, dict or DataLoader, got list_iterator"),
        (One(), Loader(), "the Loader is empty: give one with at least one batch"),
        (One(), 3, "got int: pass what the model is called with"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(model: nn.Module, batch: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        as_call(model, batch)


def test_a_loss_takes_a_target_if_it_can_be_called_with_two() -> None:
    assert takes_target(nn.functional.cross_entropy)
    assert takes_target(nn.CrossEntropyLoss())
    assert takes_target(lambda output, target=None: output)
    assert not takes_target(lambda output: output.sum())
    assert not takes_target(None)


def test_a_loss_of_the_output_alone_ignores_the_target() -> None:
    assert loss_value(lambda output: output.sum(), X, Y) == X.sum()
    with pytest.raises(ValueError, match=r"give a batch \(inputs, targets\)"):
        loss_value(nn.functional.mse_loss, X)


class Output:
    def __init__(self, loss: Tensor | None) -> None:
        self.loss, self.logits = loss, X


def test_the_loss_of_the_model_is_one_number_that_can_be_differentiated() -> None:
    number = torch.ones((), requires_grad=True) * 2
    for output in (number, Output(number), {"loss": number, "logits": X}):
        assert own_loss(output) == 2
    for output in (X, Output(None), Output(torch.tensor(2.0)), {"logits": X}, (X, number)):
        assert own_loss(output) is None


class Language(nn.Module):
    """Computes its loss if it is given labels, as models of transformers do."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(7, 8), nn.Linear(8, 7)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        logits = self.head(self.embedding(input_ids))
        found = {"logits": logits}
        if labels is not None:
            found["loss"] = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return found


def test_a_recording_differentiates_the_loss_that_the_model_returns() -> None:
    ids = torch.arange(24).reshape(4, 6) % 7
    model = Language()
    assert record(model, {"input_ids": ids, "labels": ids}).gradient_source == "the model's own loss"
    assert record(model, {"input_ids": ids}).gradient_source == "a random unit direction at the output"
    given = record(model, {"input_ids": ids, "labels": ids}, lambda output: output["loss"] * 3)
    own = record(model, {"input_ids": ids, "labels": ids})
    assert given.gradient_source == "the loss"
    one, other = ((next(row for row in r.layers if row.name == "head").gradient_norm or 0) for r in (own, given))
    assert other == pytest.approx(3 * one)


def test_labels_inside_a_dict_reach_a_loss_of_two_arguments() -> None:
    ids = torch.arange(24).reshape(4, 6) % 7

    def loss(output: dict[str, Tensor], target: Tensor) -> Tensor:
        return nn.functional.cross_entropy(output["logits"].flatten(0, 1), target.flatten())

    assert record(Language(), {"input_ids": ids, "labels": ids}, loss).gradient_source == "the loss"


class MessagePassing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)

    def forward(self, graph: Data) -> Tensor:
        source, destination = graph.edge_index
        hidden = self.first(graph.x)
        hidden = hidden.index_add(0, destination, hidden[source]).relu()
        out: Tensor = self.second(hidden)
        return out


def test_the_nodes_of_a_graph_are_its_samples_and_the_graph_is_not_changed() -> None:
    before = copy.deepcopy(vars(GRAPH))
    recording = record(MessagePassing(), GRAPH, nn.functional.cross_entropy)
    assert recording.samples == 12
    assert [row.name for row in recording.layers][:2] == ["first", "second"]
    assert recording.gradient_source == "the loss"
    assert same(vars(GRAPH), before)


def test_nodes_of_a_graph_are_never_cut_apart_and_samples_are() -> None:
    adjacency = torch.eye(12)
    for call in (as_call(Graph(), GRAPH), as_call(Nodes(), GRAPH), Call((X, EDGES)), Call((X, adjacency))):
        assert not divisible(call)
        assert first_samples(call, 3) is call
    cut = first_samples(Call((X, T), target=Y), 3)
    assert same((cut.args, cut.target), ((X[:3], T[:3]), Y[:3]))
    assert same(chosen_samples(Call((X,)), torch.tensor([4, 2])).args, (X[[4, 2]],))


def test_images_with_integer_targets_have_classes_in_the_second_dimension() -> None:
    logits, classes = torch.randn(2, 5, 4, 3), torch.randint(5, (2, 4, 3))
    assert torch.equal(call_loss(None, logits, classes), nn.functional.cross_entropy(logits, classes))
    words = logits.movedim(1, -1)
    torch.testing.assert_close(call_loss(None, words, classes), nn.functional.cross_entropy(logits, classes))
    assert call_loss(None, X, 2 * X) == X.square().mean()
    with pytest.raises(ValueError, match="brings no target and the model returns no loss"):
        call_loss(None, X, None)
