"""Activations that are functions inside a forward are found in the source, with the line to change."""

from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.activations.functions import function_calls, may_add, returned_softmax


class Functional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.relu = nn.Linear(4, 4), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.layer(x))
        x = self.relu(x)
        return self.layer(x).tanh_()


class Classifier(Functional):
    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(super().forward(x), dim=-1)


class Skipping(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + x.tanh()


class Calling(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return combined(x)


def combined(x: Tensor) -> Tensor:
    return x + x


def test_functions_and_methods_are_found_and_modules_are_not() -> None:
    found = list(function_calls(nn.Sequential(Functional(), Functional())))
    assert {(call.function, call.instances, call.owner) for call in found} == {
        ("tanh", 2, "Functional"),
        ("relu", 2, "Functional"),
    }
    assert len(found) == 2
    relu = next(call for call in found if call.function == "relu")
    assert relu.code == "F.relu(self.layer(x))"
    start = Functional.forward.__code__.co_firstlineno
    assert relu.place == f"test_functions.py, line {start + 1}"
    assert "self.relu = torch.nn.ReLU() in __init__" in relu.advice


def test_a_returned_softmax_is_found_only_where_the_network_returns_it() -> None:
    found = returned_softmax(Classifier())
    assert found is not None
    assert found.code.startswith("F.softmax(")
    assert returned_softmax(nn.Sequential(Classifier())) is None
    assert returned_softmax(Functional()) is None


def test_activations_of_a_base_class_count() -> None:
    assert {call.function for call in function_calls(Classifier())} == {"relu", "tanh"}


def test_what_may_add_is_told_from_what_cannot() -> None:
    assert may_add(Skipping)
    assert may_add(Calling), "a function whose source was not read may add"
    assert not may_add(Functional)
    unknown = type("Unknown", (nn.Module,), {"forward": lambda self, x: x})
    assert may_add(unknown), "there is no source"
