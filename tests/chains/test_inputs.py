"""Arguments of simulations and chains: what is accepted, and errors that name what was given."""

import math
import subprocess
import sys

import numpy
import pytest
import torch
from torch import Tensor, nn

from chains.slow_chain import uniform_weights
from orthoscope.chains import Chain, gradients_by_depth, simulate, simulate_gradients

SEEDS = list(range(4))


def batch(samples: int, units: int) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


MISTAKEN = """
import numpy, torch

from orthoscope.chains import Chain, gradients_by_depth, simulate, simulate_gradients

start, chain = torch.eye(4), Chain(4)
def simulated(start=start, chain=chain, depth=2, seeds=range(3), record={}, layers=None):
    simulate(start, chain, depth, seeds=seeds, record=record, layers=layers)

for wrong in (
    lambda: simulated(chain="relu"),
    lambda: simulated(seeds=5),
    lambda: simulated(seeds="abc"),
    lambda: simulated(seeds=[0.5]),
    lambda: simulated(seeds=torch.tensor(3)),
    lambda: simulated(record=torch.mean),
    lambda: simulated(record=None),
    lambda: simulated(record={"a": 1}),
    lambda: simulated(start=numpy.eye(4)),
    lambda: simulated(start=[[1.0, 2.0]]),
    lambda: simulated(depth=2.5),
    lambda: simulated(depth="x"),
    lambda: simulated(layers=[1.7]),
    lambda: simulated(layers="12"),
    lambda: simulated(layers=2),
    lambda: gradients_by_depth(start, chain, 10, seeds=[0]),
    lambda: gradients_by_depth(start, chain, [2.5], seeds=[0]),
    lambda: gradients_by_depth(start, chain, [2], seeds=[0], layer=1.5),
    lambda: simulate_gradients(start, chain, 2.5, seeds=[0]),
    lambda: simulate_gradients(start, chain, 2, seeds=[0], classes=2.5),
    lambda: Chain(16, gain="2"),
    lambda: Chain(16, gain=[1, 2]),
    lambda: simulated(chain=Chain(4, gain=lambda layer: None)),
):
    try:
        wrong()
    except TypeError as error:
        print(error)
    else:
        print("accepted")
"""

FOUND = """
chain is 'relu'
seeds is 5
seeds has 'a'
seeds has 0.5
seeds is tensor(3)
record is <built-in method mean
record is None
record has 1 for 'a'
start is of type ndarray
start is of type list
depth is 2.5
depth is 'x'
layers has 1.7
layers has '1'
layers is 2
depths is 10
depths has 2.5
layer is 1.5
depth is 2.5
classes is 2.5
gain is '2'
gain is [1, 2]
gain is None
"""


@pytest.mark.slow
def test_type_errors_name_the_argument_and_say_what_to_give() -> None:
    """In a process of its own, where types are not checked."""
    done = subprocess.run([sys.executable, "-c", MISTAKEN], capture_output=True, text=True, check=True)
    for message, found in zip(done.stdout.splitlines(), FOUND.strip().splitlines(), strict=True):
        assert message.startswith(found)
        assert ": give " in message or ": describe " in message


@pytest.mark.parametrize("kind", [numpy.array, torch.tensor, tuple])
def test_integers_of_numpy_and_torch_are_accepted(kind: type) -> None:
    start, chain, deep = batch(3, 4), Chain(4, norm="rms"), {"record": {"all": lambda hidden: hidden}}
    plain = simulate(start, chain, 5, seeds=[2, 9], layers=[5, 3], **deep)
    found = simulate(start, chain, 5, seeds=kind([2, 9]), layers=kind([5, 3]), **deep)
    assert found.layers == [5, 3]
    assert torch.equal(found.values["all"], plain.values["all"])
    for call in (
        lambda numbers: gradients_by_depth(start, chain, numbers([5, 3]), seeds=numbers([2, 9])),
        lambda numbers: simulate_gradients(start, chain, 5, seeds=numbers([2, 9]), layers=numbers([4])),
    ):
        assert torch.equal(call(kind), call(list))


@pytest.mark.parametrize("name", ["activation", "init"])
def test_a_class_in_place_of_an_instance_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"{name} is the class SiLU: give an instance of it, SiLU\(\)"):
        Chain(64, **{name: nn.SiLU})


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize(
    ("activation", "found"),
    [
        (lambda hidden: hidden.sum(-1), r"shape \(1, 3\)"),
        (lambda hidden: hidden.sum(), r"shape \(\)"),
        (lambda hidden: None, "a NoneType"),
        (lambda hidden: hidden.max(-1), "a max"),
    ],
)
def test_an_activation_that_is_not_elementwise_is_refused_in_one_sentence(
    activation: object, found: str, norm: str, norm_first: bool
) -> None:
    chain = Chain(4, uniform_weights, activation, norm, norm_first)
    for call in (lambda: simulate(batch(3, 4), chain, 2, seeds=[0], record={}), lambda: lone_gradient(chain)):
        with pytest.raises(
            ValueError, match=rf"activation returned {found} for a tensor of shape \(1, 3, 4\): it must"
        ):
            call()


def lone_gradient(chain: Chain) -> Tensor:
    return simulate_gradients(batch(3, 4), chain, 2, seeds=[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seeds": []}, "seeds is empty"),
        ({"start": torch.ones(3)}, r"start has shape \(3,\)"),
        ({"start": torch.ones(3, 0)}, r"start has shape \(3, 0\)"),
        ({"start": torch.ones(3, 4, dtype=torch.long)}, "start is of type torch.int64"),
        ({"start": torch.ones(2, 3, 4)}, "start holds 2 batches for 4 seeds"),
        ({"start": torch.full((3, 4), math.nan)}, "not finite"),
        ({"depth": -1}, "depth is -1"),
        ({"layers": [0, 11]}, "layers has 11, but the layers are 0 to 10"),
        ({"layers": [1, 1]}, "names a layer twice"),
        ({"record": {"bad": lambda hidden: hidden.sum()}}, "the metric 'bad' returned shape"),
        ({"record": {"bad": lambda hidden: 1.5}}, "the metric 'bad' returned a float for 4 networks"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(change: dict[str, object], message: str) -> None:
    arguments = {"start": batch(3, 4), "chain": Chain(4), "depth": 10, "seeds": SEEDS, "record": {}} | change
    with pytest.raises(ValueError, match=message) as refused:
        simulate(**arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"width": 0}, "width is 0"),
        ({"init": "he"}, "unknown init 'he'"),
        ({"activation": "rellu"}, "unknown activation 'rellu'"),
        ({"norm": "group"}, "unknown norm 'group'"),
        ({"gain": 0.0}, "gain is 0.0"),
    ],
)
def test_a_bad_chain_is_refused_in_one_sentence(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Chain(**({"width": 4} | change))


@pytest.mark.parametrize(
    ("name", "value"), [("width", 64.0), ("init", None), ("init", 3), ("activation", 3), ("norm", None)]
)
def test_wrong_types_in_a_chain_are_refused_in_one_sentence(name: str, value: object) -> None:
    chain = Chain(4)
    # Set behind the type checks of the tests.
    object.__setattr__(chain, name, value)
    with pytest.raises(TypeError, match=f"{name} is {value!r}: give a"):
        chain.__post_init__()


def test_weights_of_a_wrong_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="init returned weights of shape"):
        simulate(
            batch(3, 4),
            Chain(4, lambda count, out, fan_in, generator: torch.ones(out, fan_in)),
            2,
            seeds=[0],
            record={},
        )
