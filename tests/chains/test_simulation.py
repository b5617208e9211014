"""A batched simulation agrees with a plain loop: in law, and to rounding if given its weights."""

import itertools
import math
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
from torch import Tensor

from chains.slow_chain import Drawer, slow_chain, slow_gap, standard_errors_apart, uniform_weights
from orthoscope.chains import Chain, simulate
from orthoscope.chains.chain import Draw
from orthoscope.linalg import haar
from orthoscope.metrics import isometry_gap, orthogonality_gap

SEEDS = list(range(4))


def batch(samples: int, units: int, seed: int = 0) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("norm", ["none", "rms", "layer", "batch", "batch_uncentered"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["identity", "tanh", "relu"])
def test_simulation_with_given_weights_matches_a_plain_loop(norm: str, norm_first: bool, activation: str) -> None:
    drawer = Drawer()
    chain = Chain(8, drawer, activation, norm, norm_first, gain=1.3)
    start = batch(5, 6)
    recording = simulate(start, chain, 7, seeds=SEEDS, record={"all": lambda h: h.reshape(len(SEEDS), -1)[:, :30]})
    function = {"identity": lambda x: x, "tanh": torch.tanh, "relu": torch.relu}[activation]
    first, rest = drawer.weights[: len(SEEDS)], drawer.weights[len(SEEDS) :]
    for place in range(len(SEEDS)):
        weights = [first[place][0], *rest[place][:6]]
        slow = slow_chain(start, weights, norm=norm, activation=function, norm_first=norm_first, gain=1.3)
        for layer, hidden in enumerate(slow):
            expected = hidden.flatten()[:30]
            torch.testing.assert_close(recording.values["all"][place, layer], expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(recording.last[place], slow[-1], rtol=1e-9, atol=1e-9)


def really_orthogonal(layers: int, out: int, fan_in: int, generator: torch.Generator) -> Tensor:
    return haar(out, fan_in, layers, generator=generator, dtype=torch.float64)


def really_gaussian(layers: int, out: int, fan_in: int, generator: torch.Generator) -> Tensor:
    return torch.randn(layers, out, fan_in, generator=generator, dtype=torch.float64) / math.sqrt(fan_in)


SHAPES = [(3, 7, 7), (5, 5, 5), (6, 4, 4), (3, 4, 8), (3, 8, 5), (6, 8, 5)]


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "fan_in", "width"), SHAPES)
@pytest.mark.parametrize("init", ["gaussian", "orthogonal"])
@pytest.mark.parametrize(
    ("norm", "activation"), [("batch_uncentered", "identity"), ("layer", "relu"), ("none", "tanh")]
)
def test_products_in_law_have_the_law_of_fully_drawn_weights(
    samples: int, fan_in: int, width: int, init: str | Draw, norm: str, activation: str
) -> None:
    start, networks = batch(samples, fan_in), 600
    metrics = {"gap": orthogonality_gap, "moments": moments}
    explicit = really_orthogonal if init == "orthogonal" else really_gaussian
    in_law = simulate(start, Chain(width, init, activation, norm), 3, seeds=range(networks), record=metrics)
    really = simulate(
        start, Chain(width, explicit, activation, norm), 3, seeds=range(networks, 2 * networks), record=metrics
    )
    for name in metrics:
        # Not the start, which is the same for all.
        assert standard_errors_apart(in_law.values[name][:, 1:], really.values[name][:, 1:]) < 4.5


def slow_weights(init: str, shapes: list[tuple[int, int]], source: numpy.random.Generator) -> list[Tensor]:
    """By numpy, one matrix after another."""
    found = []
    for out, fan_in in shapes:
        if init == uniform_weights:
            weight = source.uniform(-math.sqrt(3 / fan_in), math.sqrt(3 / fan_in), (out, fan_in))
        else:
            weight = source.normal(0, 1 / math.sqrt(fan_in), (out, fan_in))
        if init == "orthogonal":
            tall, triangle = numpy.linalg.qr(weight if out >= fan_in else weight.T)
            tall = tall * numpy.sign(numpy.diagonal(triangle))
            weight = tall if out >= fan_in else tall.T
        found.append(torch.from_numpy(weight))
    return found


KINDS = [
    ("batch_uncentered", True, "identity"),
    ("batch", False, "tanh"),
    ("layer", True, "relu"),
    ("rms", False, "sigmoid"),
    ("none", True, "gelu"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "fan_in", "width"), [(3, 7, 7), (6, 5, 4)])
@pytest.mark.parametrize("init", ["gaussian", "orthogonal", uniform_weights])
@pytest.mark.parametrize(("norm", "norm_first", "activation"), KINDS)
def test_every_kind_of_chain_has_the_law_of_a_plain_loop(
    samples: int, fan_in: int, width: int, init: str | Draw, norm: str, norm_first: bool, activation: str
) -> None:
    start, depth, networks = batch(samples, fan_in), 3, 400
    functions = {"identity": lambda x: x, "gelu": torch.nn.functional.gelu}
    source, shapes = numpy.random.default_rng(0), [(width, fan_in), *[(width, width)] * (depth - 1)]
    slow = [
        slow_chain(
            start,
            slow_weights(init, shapes, source),
            norm=norm,
            norm_first=norm_first,
            activation=functions.get(activation) or getattr(torch, activation),
            gain=1.5,
        )[1:]
        for _ in range(networks)
    ]
    chain = Chain(width, init, activation, norm, norm_first, gain=1.5)
    fast = simulate(start, chain, depth, seeds=range(networks), record={"moments": moments}).values["moments"]
    for layer in range(depth):
        theirs = moments(torch.stack([hidden[layer] for hidden in slow]))
        assert standard_errors_apart(fast[:, layer + 1], theirs) < 4.5


def moments(hidden: Tensor) -> Tensor:
    """Of single entries and of two of them: first, second and fourth."""
    a, b = hidden[:, 0, 0], hidden[:, 1, 2]
    return torch.stack([a, a.square(), a * b, a.square() * b.square(), a.pow(4)], dim=1)


@pytest.mark.slow
def test_the_comparison_of_laws_rejects_gaussian_for_orthogonal_weights() -> None:
    start = batch(3, 7)
    gaps = [
        simulate(start, Chain(7, init, norm="batch_uncentered"), 3, seeds=range(1500), record={"V": orthogonality_gap})
        for init in ("gaussian", "orthogonal")
    ]
    assert standard_errors_apart(gaps[0].values["V"][:, 1:], gaps[1].values["V"][:, 1:]) > 10


@pytest.mark.parametrize("init", ["gaussian", "orthogonal", uniform_weights])
@pytest.mark.parametrize("samples", [3, 20])
def test_a_network_does_not_depend_on_the_others_nor_on_the_depth(init: str | Draw, samples: int) -> None:
    chain = Chain(20, init, "tanh", "batch")
    starts = torch.stack([batch(samples, 20, seed) for seed in range(5)])
    # One of the others is nearly dependent, and must be treated with more care than the rest.
    starts[1] = starts[1] * 1e-7 + starts[1, :1]
    together = simulate(starts, chain, 30, seeds=[7, 8, 9, 10, 11], record={"V": orthogonality_gap})
    alone = simulate(starts[3], chain, 20, seeds=[10], record={"V": orthogonality_gap})
    torch.testing.assert_close(together.values["V"][3:4, :21], alone.values["V"], rtol=1e-8, atol=0)
    other = simulate(starts[3], chain, 20, seeds=[12], record={"V": orthogonality_gap})
    assert not torch.allclose(other.values["V"][:, 1:], alone.values["V"][:, 1:], rtol=1e-3)


def test_only_the_layers_asked_for_are_recorded_in_their_order() -> None:
    chain = Chain(16, norm="rms", activation="relu")
    record = {"V": orthogonality_gap, "two": lambda hidden: hidden[:, 0, :2]}
    all_layers = simulate(batch(4, 16), chain, 20, seeds=SEEDS, record=record)
    some = simulate(batch(4, 16), chain, 20, seeds=SEEDS, record=record, layers=[20, 3, 0])
    assert some.layers == [20, 3, 0]
    assert all_layers.layers == list(range(21))
    assert some.values["two"].shape == (4, 3, 2)
    for name in record:
        assert torch.equal(some.values[name], all_layers.values[name][:, [20, 3, 0]])


def test_recorded_representations_are_the_last_ones_of_shallower_networks() -> None:
    start, chain = batch(6, 6), Chain(6, "orthogonal", norm="batch_uncentered")
    whole = simulate(start, chain, 5, seeds=SEEDS, record={"hidden": lambda hidden: hidden})
    for depth in range(1, 5):
        last = simulate(start, chain, depth, seeds=SEEDS, record={}).last
        torch.testing.assert_close(whole.values["hidden"][:, depth], last, rtol=1e-13, atol=1e-13)


RESIDENT = """
import torch
from pathlib import Path
from orthoscope.chains import Chain, simulate

def resident(hidden):
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return torch.full((len(hidden),), float(line.split()[1]))

start, layers = torch.eye(2), [1_000, 50_000, 100_000]
found = simulate(start, Chain(2, norm="rms"), 100_000, seeds=[0, 1], record={"kB": resident}, layers=layers)
print(float(found.values["kB"].max() - found.values["kB"][0, 0]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells how much memory is resident")
def test_a_hundred_thousand_layers_take_the_memory_of_a_thousand() -> None:
    """In a process of its own, where no shapes are checked: a minute otherwise."""
    done = subprocess.run([sys.executable, "-c", RESIDENT], capture_output=True, text=True, check=True)
    # A tensor a layer, be it ever so small, is more than half a kilobyte.
    assert float(done.stdout) < 10_000


# Behind a centered norm the preactivations of a unit sum to 0 over the batch, so only the first layer can kill it.
@pytest.mark.parametrize(("norm", "depth"), [("batch", 1), ("batch_uncentered", 5)])
def test_a_dead_unit_stays_dead_instead_of_becoming_nan(norm: str, depth: int) -> None:
    start = batch(3, 12).abs()
    chain = Chain(12, activation="relu", norm=norm, norm_first=False)
    found = simulate(start, chain, depth, seeds=SEEDS, record={})
    assert bool(found.last.isfinite().all())
    assert bool((found.last == 0).all(1).any()), "the test needs a unit that is dead on the whole batch"


def test_a_gain_may_depend_on_the_layer() -> None:
    fixed = simulate(batch(3, 9), Chain(9, activation="tanh", gain=1.0), 6, seeds=SEEDS, record={}).last
    seen: list[int] = []

    def gain(layer: int) -> float:
        seen.append(layer)
        return 1.0 if layer < 6 else 3.0

    varied = simulate(batch(3, 9), Chain(9, activation="tanh", gain=gain), 6, seeds=SEEDS, record={}).last
    assert sorted(set(seen)) == [1, 2, 3, 4, 5, 6]
    torch.testing.assert_close(varied.atanh(), 3 * fixed.atanh())


def test_nearly_dependent_samples_keep_their_small_directions() -> None:
    """The start of daneshmand2021, figure 2a: singular values 1 and 1e-6, squares of which rounding would blur."""
    start = torch.zeros(4, 64, dtype=torch.float64)
    start[range(4), range(4)] = torch.tensor([1.0, 1e-6, 1e-6, 1e-6], dtype=torch.float64)
    psi = simulate(start, Chain(64), 1, seeds=range(400), record={"psi": isometry_gap}).values["psi"][:, 1]
    # det of HWᵀWHᵀ is det HHᵀ times that of a Wishart matrix, whatever H is.
    wishart = sum(float(torch.digamma(torch.tensor((64 - i) / 2))) + math.log(2 / 64) for i in range(4))
    energy = simulate(start, Chain(64), 1, seeds=range(400), record={"e": lambda h: h.square().sum((1, 2))})
    determinant = 4 * (energy.values["e"][:, 1] / 4).log() - 4 * psi
    expected = 6 * math.log(1e-6) + wishart
    assert abs(float(determinant.mean()) - expected) < 4 * float(determinant.std()) / 20
    assert float(determinant.std()) < 1


def test_the_gap_by_its_definition_is_the_metric() -> None:
    for samples, units in itertools.product((2, 5), (5, 9)):
        hidden = batch(samples, units)
        assert slow_gap(hidden) == pytest.approx(float(orthogonality_gap(hidden)), rel=1e-12)
