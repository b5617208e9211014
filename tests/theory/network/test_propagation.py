"""Signals and gradients through whole networks: closed forms, conventions, and the ends of the floats."""

import math
from itertools import pairwise
from unittest import mock

import pytest
import torch

from orthoscope.activations import Nonlinearity, nonlinearity
from orthoscope.theory import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    NoTheory,
    Propagation,
    effective_rank,
    gap_of_overlaps,
    gaussian_inputs,
    isometry_gap_of_overlaps,
    propagate,
)
from orthoscope.theory.network import layers
from orthoscope.theory.network._layer_moments import layer_moments

ROUNDING = 1e-10


def network(activation: str | Nonlinearity, weight_variance: float = 1.0, **rest: object) -> Hyperparameters:
    law = LinearLaw(256, weight_variance)
    return Hyperparameters(nonlinearity(activation), law, **({"last": LinearLaw(10)} | rest))  # type: ignore[arg-type]


def arc_cosine_map(overlap: float) -> float:
    return (math.sqrt(1 - overlap**2) + (math.pi - math.acos(overlap)) * overlap) / math.pi


def test_he_weights_keep_relu_variance_and_overlaps_follow_the_arc_cosine_map() -> None:
    found = propagate(network("relu", 2.0), gaussian_inputs(16, 256, overlap=0.1), 30)
    overlap = 0.1
    for layer in found.layers:
        overlap = arc_cosine_map(overlap)
        assert layer.output.mean_square == pytest.approx(1.0, rel=ROUNDING)
        assert layer.output.overlap == pytest.approx(overlap, rel=ROUNDING)
        assert layer.output == layer.activation


@pytest.mark.parametrize("gain", [0.5, 1.0, 1.3])
def test_linear_gradients_grow_by_the_log_of_the_weight_gain(gain: float) -> None:
    found = propagate(network("identity", gain**2), gaussian_inputs(16, 256), 12)
    gradients = found.log_gradients()
    assert gradients[-1] == 0.0
    # The head has variance 1: it passes on what it gets.
    assert gradients[-2] == pytest.approx(0.0, abs=ROUNDING)
    growth = [before - after for before, after in pairwise(gradients[:-1])]
    assert growth == pytest.approx([math.log(gain)] * 11, abs=ROUNDING)


def test_the_head_multiplies_gradients_by_the_root_of_its_variance() -> None:
    plain = propagate(network("relu", 2.0), gaussian_inputs(16, 256), 5).log_gradients()
    steep = propagate(network("relu", 2.0, last=LinearLaw(10, 9.0)), gaussian_inputs(16, 256), 5).log_gradients()
    assert [a - b for a, b in zip(steep, plain, strict=True)] == pytest.approx(
        [math.log(3.0)] * 5 + [0.0], abs=ROUNDING
    )
    without = propagate(network("relu", 2.0, last=None), gaussian_inputs(16, 256), 5)
    assert without.head is None
    assert without.log_gradients() == pytest.approx(plain[:-1], abs=ROUNDING)
    # The last activation of ReLU passes half of a squared gradient on, whatever the head.
    assert without.log_gradients()[-1] == pytest.approx(-math.log(2) / 2, abs=ROUNDING)


CASES: dict[str, Hyperparameters] = {
    "plain": network("tanh", 1.5),
    "layer norm": network("gelu", norm="layer", order="activation-norm", epsilon=1e-5),
    "residual": network("relu", 2.0, residual_scale=0.4),
    "batch norm": network("relu", norm="batch"),
    "rotation": network("tanh", rotation=True),
}


@pytest.mark.parametrize("case", CASES)
def test_cutting_the_depth_is_propagating_less(case: str) -> None:
    inputs = gaussian_inputs(16, 256, overlap=0.2)
    deep, shallow = (propagate(CASES[case], inputs, depth) for depth in (9, 4))
    assert deep.layers[:4] == shallow.layers
    assert deep.log_gradients(4) == pytest.approx(shallow.log_gradients(), abs=ROUNDING, nan_ok=True)


@pytest.mark.parametrize("depth", [0, -1, 6])
def test_no_network_is_cut_to_a_depth_that_it_has_not(depth: int) -> None:
    found = propagate(CASES["plain"], gaussian_inputs(16, 256), 5)
    with pytest.raises(ValueError, match=f"depth is {depth}"):
        found.log_gradients(depth)


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_linear_residual_networks_grow_as_a_power(scale: float) -> None:
    r"""$q_\ell = (1+s^2)^\ell$, angles stay, and a squared gradient grows as much on its way back."""
    found = propagate(network("identity", residual_scale=scale), gaussian_inputs(16, 256, overlap=0.2), 15)
    for index, layer in enumerate(found.layers):
        assert layer.output.mean_square == pytest.approx((1 + scale**2) ** (index + 1), rel=ROUNDING)
        assert layer.output.overlap == pytest.approx(0.2, abs=ROUNDING)
        assert layer.to_input == pytest.approx(math.log(1 + scale**2), rel=ROUNDING)
    steps = [before - after for before, after in pairwise(found.log_gradients()[:-1])]
    assert steps == pytest.approx([math.log(1 + scale**2) / 2] * 14, abs=ROUNDING)


def test_the_first_layer_may_have_its_own_law_and_no_skip() -> None:
    hyper = network("identity", first=LinearLaw(256, 4.0), residual_scale=1.0, first_skips=False)
    sizes = [layer.output.mean_square for layer in propagate(hyper, gaussian_inputs(16, 30), 3).layers]
    assert sizes == pytest.approx([4.0, 8.0, 16.0])


def test_a_head_of_few_outputs_is_no_rotation() -> None:
    """Ten rows of an orthogonal matrix keep no angles: the cosine of two outputs has a variance of about 1/10."""
    found = propagate(network("identity", rotation=True), Inputs(16), 3)
    assert found.layers[-1].output.overlap_variance == pytest.approx(0.0, abs=ROUNDING)
    assert found.head is not None
    assert found.head.overlap_variance == pytest.approx(0.1)
    square = propagate(network("identity", rotation=True, last=LinearLaw(256)), Inputs(16), 3)
    assert square.head is not None
    assert square.head.overlap_variance == pytest.approx(0.0, abs=ROUNDING)
    wide_input = propagate(network("identity", rotation=True, first_rotates=False), Inputs(16), 3)
    assert wide_input.layers[-1].output.overlap_variance == pytest.approx(1 / 256)


def calls_for(samples: int, units: int, norm: str) -> int:
    """How often the moments of a layer are integrated, ten layers deep."""
    hyper = Hyperparameters(nonlinearity("gelu"), LinearLaw(units), norm=norm, order="activation-norm")
    with mock.patch.object(layers, "layer_moments", wraps=layer_moments) as moments:
        propagate(hyper, gaussian_inputs(samples, units), 10)
    return moments.call_count


@pytest.mark.slow
def test_the_cost_depends_neither_on_width_nor_on_batch() -> None:
    assert calls_for(4, 16, "none") == calls_for(100_000, 10**9, "none") == 10
    assert calls_for(4, 16, "layer") == calls_for(100_000, 10**9, "layer") == 20


def test_progress_is_told_of_every_layer() -> None:
    told: list[int] = []
    propagate(CASES["plain"], gaussian_inputs(16, 256), 5, told.append)
    assert told == [1, 2, 3, 4, 5]


def numbers(found: Propagation, samples: int) -> list[float]:
    output = found.layers[-1].output
    spread = samples * output.difference_variance
    return [
        gap_of_overlaps(samples, output.overlap, output.overlap_variance),
        effective_rank(samples, output.overlap, spread),
        isometry_gap_of_overlaps(samples, output.overlap, spread),
        *found.log_gradients(),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["none", "layer"])
def test_a_collapsed_batch_has_overlap_one_and_rank_one(norm: str) -> None:
    found = propagate(network("sigmoid", norm=norm), gaussian_inputs(16, 256), 40)
    output = found.layers[-1].output
    assert output.overlap == 1.0
    gap, rank, isometry, *gradients = numbers(found, 16)
    assert gap == pytest.approx(math.sqrt(15 / 16))
    assert rank == 1.0
    assert isometry == math.inf
    assert all(math.isfinite(value) for value in gradients)


@pytest.mark.parametrize("case", CASES)
def test_a_batch_of_one_direction_gives_numbers_everywhere(case: str) -> None:
    inputs = Inputs(16, overlap=1.0, difference_variance=math.inf)
    gap, rank, _, *_ = numbers(propagate(CASES[case], inputs, 6), 16)
    assert not math.isnan(gap)
    assert rank == 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hyper", "depth", "reason"),
    [
        (network("cube", 2.0), 40, "signals overflow at layer 6"),
        (network("exp"), 40, "at layer 3"),
        (network("square"), 40, "signals overflow at layer 1[0-9]"),
        (network("relu", 1e30), 20, "signals overflow at layer"),
        (network("relu", 1e30, residual_scale=1.0), 20, "signals overflow at layer"),
        (network("tanh", 1e-8), 60, "signals vanish at layer 4[01]"),
        (network("hardshrink", 0.01), 40, "at layer [12]$"),
        (network("relu", 0.0), 3, "signals vanish at layer 1"),
        (network("relu", 2.0, last=LinearLaw(10, 0.0)), 3, "signals vanish at the head"),
        (network("relu", norm="batch", order="activation-norm"), 3, "batch norm after the activation"),
    ],
)
def test_where_numbers_end_the_reason_is_given(hyper: Hyperparameters, depth: int, reason: str) -> None:
    with pytest.raises(NoTheory, match=reason):
        propagate(hyper, gaussian_inputs(16, 256), depth)


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("name", ["cube", "square", "sinh"])
def test_norms_keep_exploding_activations_within_the_floats(name: str, norm: str) -> None:
    assert all(
        math.isfinite(value) for value in numbers(propagate(network(name, norm=norm), gaussian_inputs(16, 256), 12), 16)
    )


def test_where_no_gradient_passes_it_is_zero_and_not_unknown() -> None:
    found = propagate(network("sign"), gaussian_inputs(16, 256), 6)
    assert found.log_gradients() == [-math.inf] * 6 + [0.0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"samples": 1}, "a batch of 1 has no pair"),
        ({"samples": 5, "overlap": -0.26}, "between -0.25 and 1, got -0.26"),
        ({"samples": 5, "overlap": 1.1}, "between -0.25 and 1, got 1.1"),
        ({"samples": 5, "overlap": math.nan}, "got nan"),
        ({"samples": 5, "mean_square": 0.0}, "must be positive"),
    ],
)
def test_impossible_inputs_are_refused(arguments: dict[str, float], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Inputs(**arguments)  # type: ignore[arg-type]


def test_impossible_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown normalization 'group': choose one of none, rms"):
        network("relu", norm="group")
    with pytest.raises(ValueError, match="unknown order 'first': choose one of norm-activation"):
        network("relu", order="first")
    with pytest.raises(ValueError, match="width is 0"):
        LinearLaw(0)
    with pytest.raises(ValueError, match="the weight variance is -1"):
        LinearLaw(8, -1.0)
    with pytest.raises(ValueError, match="the bias variance is nan"):
        LinearLaw(8, 1.0, math.nan)
    with pytest.raises(ValueError, match="0 features"):
        gaussian_inputs(4, 0)
    with pytest.raises(ValueError, match="depth is 0"):
        propagate(network("relu"), gaussian_inputs(16, 256), 0)


def test_gaussian_inputs_are_what_gaussian_samples_are(generator: torch.Generator) -> None:
    samples, features, overlap, batches = 4, 300, 0.4, 4000
    inputs = gaussian_inputs(samples, features, overlap)
    shared = torch.randn(batches, features, 1, generator=generator, dtype=torch.float64)
    own = torch.randn(batches, features, samples, generator=generator, dtype=torch.float64)
    drawn = math.sqrt(overlap) * shared + math.sqrt(1 - overlap) * own
    cosine = torch.cosine_similarity(drawn[..., 0], drawn[..., 1], dim=1)
    difference = torch.cosine_similarity(drawn[..., 0] - drawn[..., 1], drawn[..., 2] - drawn[..., 3], dim=1)
    error = 4 * math.sqrt(2 / batches) + 4 / features  # of a variance, and the order left out
    assert float(cosine.mean()) == pytest.approx(
        overlap, abs=4 * float(cosine.std()) / math.sqrt(batches) + 1 / features
    )
    assert float(cosine.var()) == pytest.approx(inputs.overlap_variance, rel=error)
    assert float(difference.var()) == pytest.approx(inputs.difference_variance, rel=error)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "depth"), [(10, 200), (1, 10)])
def test_a_variance_of_cosines_is_at_most_one(width: int, depth: int) -> None:
    hyper = Hyperparameters(nonlinearity("identity"), LinearLaw(width))
    variances = [layer.output.overlap_variance for layer in propagate(hyper, gaussian_inputs(8, width), depth).layers]
    assert 0.85 < variances[-1] <= 1.0
