"""Products of thousands of matrices: all singular values are accurate, none underflows."""

import math
import subprocess
import sys

import mpmath
import numpy
import pytest
import torch
from torch import Tensor

from chains.slow_chain import Drawer
from orthoscope import theory
from orthoscope.chains import Chain, simulate, simulation
from orthoscope.metrics import orthogonality_gap
from orthoscope_papers.daneshmand2021.vanilla_products import (
    Products,
    graded_log_singular_values,
    lyapunov,
    vanilla_products,
)


def batch(samples: int, units: int, seed: int = 0) -> Tensor:
    return torch.randn(samples, units, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def exact_log_singular_values(start: Tensor, weights: list[Tensor]) -> list[float]:
    with mpmath.workdps(600):
        product = mpmath.matrix(start.T.tolist())
        for weight in weights:
            product = mpmath.matrix(weight.tolist()) * product
        values = mpmath.svd_r(product, compute_uv=False)
        return [float(mpmath.log(value)) for value in values]


@pytest.mark.slow
def test_log_singular_values_are_those_of_exact_arithmetic() -> None:
    drawer, start, depth = Drawer(), batch(4, 5), 400
    found = vanilla_products(start, Chain(5, drawer), depth, seeds=[3], layers=[depth, 1, 40])
    weights = [weight for block in drawer.weights for weight in block]
    for place, layer in enumerate([depth, 1, 40]):
        exact = exact_log_singular_values(start, weights[:layer])
        assert found.log_singular_values[0, place].tolist() == pytest.approx(exact, abs=1e-9)
    spread = found.log_singular_values[0, 0, 0] - found.log_singular_values[0, 0, -1]
    assert float(spread) > 200, "the test needs values that are further apart than float64 has digits"


def test_graded_columns_keep_singular_values_that_underflow() -> None:
    columns = batch(6, 6).expand(3, 6, 6)
    scales = torch.tensor([[0.0] * 6, [0, -1, -2, -3, -4, -5], [0, -1, -2000, -2000.5, -5000, -1e6]]).double()
    found = graded_log_singular_values(columns, scales)
    for place in (0, 1):
        plain = torch.linalg.svdvals(columns[place] * scales[place].exp()).log()
        torch.testing.assert_close(found[place], plain, rtol=0, atol=1e-12)
    # Far apart, each is the length of its columns beyond the span of the longer ones.
    lengths = torch.linalg.qr(columns[2]).R.diagonal().abs().log()
    assert float(found[2, 5]) == pytest.approx(float(lengths[5]) - 1e6, abs=1e-9)
    assert float(found[2].sum()) == pytest.approx(float(lengths.sum() + scales[2].sum()), abs=1e-8)


@pytest.mark.slow
def test_gaussian_products_in_law_have_the_law_of_drawn_ones() -> None:
    start, networks = batch(3, 6), 1500
    in_law = vanilla_products(start, Chain(5), 4, seeds=range(networks), layers=[4]).log_singular_values[:, 0]
    drawn = simulate(start, Chain(5), 4, seeds=range(networks, 2 * networks), record={}).last
    really = torch.linalg.svdvals(drawn).log()
    error = ((in_law.var(0) + really.var(0)) / networks).sqrt()
    assert bool(((in_law.mean(0) - really.mean(0)).abs() < 4 * error).all())
    assert bool(((in_law.var(0) / really.var(0)).log().abs() < 0.25).all())
    assert float((in_law.mean(0)[0] - really.mean(0)[1]) / error[0]) > 10


def test_exponents_are_those_of_theory() -> None:
    width, depth, networks = 12, 400, 20
    found = lyapunov(Chain(width), depth, seeds=range(networks))
    expected = theory.lyapunov_exponents(width)
    error = found.std(0) / math.sqrt(networks)
    assert bool(((found.mean(0) - expected).abs() < 4 * error).all())
    assert bool(((found.mean(0)[1:] - expected[:-1]).abs() > 10 * error[1:]).all()), "neighbors must be rejected"


def test_exponents_do_not_depend_on_the_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    one = lyapunov(Chain(12), 20, seeds=range(7))
    monkeypatch.setitem(simulation.GROUP_BYTES, "cpu", 1 << 18)
    torch.testing.assert_close(lyapunov(Chain(12), 20, seeds=range(7)), one, rtol=1e-12, atol=0)


def test_orthogonal_products_do_not_grow_and_a_gain_adds_its_logarithm() -> None:
    assert lyapunov(Chain(6, "orthogonal"), 30, seeds=[0, 1]).abs().max() < 1e-13
    plain = lyapunov(Chain(6), 30, seeds=[0, 1], count=2)
    gained = lyapunov(Chain(6, gain=lambda layer: 3.0), 30, seeds=[0, 1], count=2)
    torch.testing.assert_close(gained - plain, torch.full_like(plain, math.log(3)))


@pytest.mark.slow
def test_the_gap_approaches_its_limit_at_the_rate_of_theory() -> None:
    width, depth, networks = 8, 3000, 16
    products = vanilla_products(torch.eye(4, width), Chain(width), depth, seeds=range(networks), layers=[depth])
    rates = -products.log_gap_distance[:, 0] / depth
    error = float(rates.std()) / math.sqrt(networks)
    assert abs(float(rates.mean()) - theory.collapse_rate(width)) < 4 * error + 5 / depth
    assert float(rates.mean()) * depth > 400, "far below the rounding of V itself"


def test_log_gap_distance_matches_the_gap_where_both_are_representable() -> None:
    drawer, start = Drawer(), batch(3, 7)
    products = vanilla_products(start, Chain(7, drawer), 5, seeds=[1])
    hidden = start
    for layer in range(6):
        distance = math.sqrt(2 / 3) - float(orthogonality_gap(hidden))
        assert float(products.log_gap_distance[0, layer].exp()) == pytest.approx(distance, rel=1e-9)
        hidden = hidden @ drawer.weights[0][layer].T if layer < 5 else hidden
    assert isinstance(products, Products)


@pytest.mark.parametrize("kind", [numpy.array, torch.tensor, tuple])
def test_integers_of_numpy_and_torch_are_accepted(kind: type) -> None:
    start = batch(3, 4)
    for call in (
        lambda numbers: lyapunov(Chain(4), 5, seeds=numbers([2, 9])),
        lambda numbers: vanilla_products(start, Chain(4), 5, seeds=numbers([2, 9])).log_singular_values,
    ):
        assert torch.equal(call(kind), call(list))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="neither norm nor activation"):
        vanilla_products(batch(3, 4), Chain(4, norm="rms"), 2, seeds=[0])
    with pytest.raises(ValueError, match="linearly dependent"):
        vanilla_products(torch.ones(2, 4), Chain(4), 2, seeds=[0])
    with pytest.raises(ValueError, match="4 directions do not fit width 3"):
        vanilla_products(batch(4, 5), Chain(3), 2, seeds=[0])
    with pytest.raises(ValueError, match="depth is 0"):
        lyapunov(Chain(3), 0, seeds=[0])


MISTAKEN = """
import numpy, torch

from orthoscope.chains import Chain
from orthoscope_papers.daneshmand2021.vanilla_products import lyapunov, vanilla_products

start, chain = torch.eye(4), Chain(4)
for wrong in (
    lambda: vanilla_products(start, "relu", 2, seeds=[0]),
    lambda: vanilla_products(numpy.eye(4), chain, 2, seeds=[0]),
    lambda: lyapunov(chain, 10, seeds=3),
    lambda: lyapunov("relu", 10, seeds=[3]),
    lambda: lyapunov(chain, 1.5, seeds=[3]),
    lambda: lyapunov(chain, 10, seeds=[3], count=1.5),
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
start is of type ndarray
seeds is 3
chain is 'relu'
depth is 1.5
count is 1.5
"""


@pytest.mark.slow
def test_type_errors_name_the_argument_and_say_what_to_give() -> None:
    """In a process of its own, where types are not checked."""
    done = subprocess.run([sys.executable, "-c", MISTAKEN], capture_output=True, text=True, check=True)
    for message, found in zip(done.stdout.splitlines(), FOUND.strip().splitlines(), strict=True):
        assert message.startswith(found)
        assert ": give " in message or ": describe " in message
