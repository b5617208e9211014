"""What every metric of representations must obey, whatever the batch: hypothesis looks for a counterexample."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoscope import metrics
from orthoscope.linalg import haar

NAMES = [
    "orthogonality_gap",
    "smallest_direction_gap",
    "isometry",
    "isometry_gap",
    "overlap_potential",
    "mean_overlap",
    "numerical_rank",
    "stable_rank",
    "effective_rank",
]
batches = st.tuples(st.integers(2, 9), st.integers(2, 12), st.integers(0, 10_000))


def hidden(samples: int, units: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(samples, units, generator=generator, dtype=torch.float64) + 0.2


def same(left: torch.Tensor, right: torch.Tensor, tolerance: float = 1e-8) -> bool:
    return torch.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(batch=batches, exponent=st.integers(-150, 150))
def test_metric_ignores_scale(name: str, batch: tuple[int, int, int], exponent: int) -> None:
    metric = getattr(metrics, name)
    assert same(metric(hidden(*batch) * 10.0**exponent), metric(hidden(*batch)))


@pytest.mark.slow
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("name", NAMES)
@given(batch=batches)
def test_metric_ignores_rotation_of_the_units(name: str, centered: bool, batch: tuple[int, int, int]) -> None:
    samples = hidden(*batch)
    rotation = haar(batch[1], batch[1], generator=torch.Generator().manual_seed(batch[2]), dtype=torch.float64)
    metric = getattr(metrics, name)
    # The overlap potential is a maximum of c/(1-c): near-parallel pairs magnify rounding.
    tolerance = 1e-5 if name == "overlap_potential" else 1e-7
    assert same(metric(samples @ rotation, centered=centered), metric(samples, centered=centered), tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "mean_energy", "length_spread"])
@given(batch=batches)
def test_metric_ignores_the_order_of_samples(name: str, batch: tuple[int, int, int]) -> None:
    samples = hidden(*batch)
    order = torch.randperm(batch[0], generator=torch.Generator().manual_seed(batch[2]))
    metric = getattr(metrics, name)
    assert same(metric(samples[order]), metric(samples), 1e-6)


@pytest.mark.parametrize("name", [*NAMES, "mean_energy", "length_spread"])
def test_metric_of_a_stack_is_the_stack_of_metrics(name: str) -> None:
    stack = torch.stack([hidden(5, 8, seed) for seed in range(40)]).reshape(4, 10, 5, 8)
    metric = getattr(metrics, name)
    one_by_one = torch.stack([metric(matrix) for matrix in stack.flatten(0, 1)]).reshape(4, 10)
    assert metric(stack).shape == (4, 10)
    assert same(metric(stack), one_by_one, 1e-12)


@given(batch=batches)
def test_gap_lies_between_its_bounds_and_reaches_them(batch: tuple[int, int, int]) -> None:
    samples, units, _ = batch
    floor = math.sqrt(max(0.0, 1 / units - 1 / samples))
    ceiling = math.sqrt((samples - 1) / samples)
    gap = float(metrics.orthogonality_gap(hidden(*batch)))
    assert floor - 1e-12 <= gap <= ceiling + 1e-12
    frame = haar(samples, units, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one_direction = torch.ones(samples, 1, dtype=torch.float64) * frame[:1]
    assert float(metrics.orthogonality_gap(frame)) == pytest.approx(floor, abs=1e-12)
    assert float(metrics.orthogonality_gap(one_direction)) == pytest.approx(ceiling, abs=1e-12)


@given(samples=st.integers(2, 8), seed=st.integers(0, 10_000))
def test_gap_is_bounded_by_what_the_weakest_direction_lacks_and_the_bound_is_tight(samples: int, seed: int) -> None:
    batch = hidden(samples, samples + 3, seed)
    weakest = float(metrics.smallest_direction_gap(batch))
    bound = math.sqrt(samples * (samples - 1))
    assert float(metrics.orthogonality_gap(batch)) <= bound * weakest + 1e-12
    # Equal in all directions but one long one: the bound is met.
    worst = torch.eye(samples, dtype=torch.float64)
    worst[0, 0] = 2.0
    met = float(metrics.orthogonality_gap(worst)) / float(metrics.smallest_direction_gap(worst))
    assert met == pytest.approx(bound, rel=1e-12)


@given(batch=batches)
def test_ranks_are_ordered(batch: tuple[int, int, int]) -> None:
    samples = hidden(*batch)
    most = min(batch[:2])
    assert 1 <= float(metrics.stable_rank(samples)) <= float(metrics.numerical_rank(samples)) + 1e-9 <= most + 1e-9
    assert 1 <= float(metrics.effective_rank(samples)) <= most + 1e-9


@pytest.mark.parametrize("name", [*NAMES, "mean_energy", "length_spread"])
def test_a_batch_of_zeros_has_no_value_but_its_rank(name: str) -> None:
    value = float(getattr(metrics, name)(torch.zeros(4, 6)))
    assert value == 0 if name == "numerical_rank" else math.isnan(value)


@pytest.mark.parametrize("name", NAMES)
def test_nan_in_the_batch_is_never_a_healthy_number(name: str) -> None:
    batch = hidden(4, 6, 0)
    batch[1, 2] = torch.nan
    try:
        value = float(getattr(metrics, name)(batch))
    except RuntimeError:  # LAPACK refuses to iterate on nan
        return
    assert math.isnan(value) or (name == "numerical_rank" and value == 0)


def test_equal_samples_are_one_direction_to_every_metric() -> None:
    batch = torch.ones(5, 7)
    assert float(metrics.mean_overlap(batch)) == pytest.approx(1)
    assert float(metrics.overlap_potential(batch)) == torch.inf
    assert float(metrics.effective_rank(batch)) == pytest.approx(1)
    assert float(metrics.isometry_gap(batch)) == torch.inf
    assert float(metrics.mean_energy(batch)) == pytest.approx(1)


def test_a_single_sample_has_no_pairs() -> None:
    batch = hidden(1, 6, 0)
    assert math.isnan(float(metrics.mean_overlap(batch)))
    assert float(metrics.orthogonality_gap(batch)) == pytest.approx(0)
    assert float(metrics.isometry_gap(batch)) == pytest.approx(0)


def test_a_zero_sample_is_left_out_of_the_overlap() -> None:
    batch = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    assert float(metrics.mean_overlap(batch)) == pytest.approx(math.sqrt(0.5))


@given(batch=st.tuples(st.integers(2, 8), st.integers(8, 12), st.integers(0, 1000)))
def test_centering_makes_room_for_a_perfect_gap(batch: tuple[int, int, int]) -> None:
    samples, units, seed = batch
    frame = haar(samples, units, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert float(metrics.orthogonality_gap(frame + 5.0, centered=True)) == pytest.approx(0, abs=1e-9)
    assert float(metrics.orthogonality_gap(frame + 5.0)) > 0.5


@pytest.mark.parametrize("name", ["orthogonality_gap", "isometry_gap", "mean_overlap", "effective_rank", "stable_rank"])
def test_metric_can_be_differentiated(name: str) -> None:
    batch = hidden(4, 6, 3).requires_grad_()
    assert torch.autograd.gradcheck(getattr(metrics, name), (batch,))


WEIGHTS = st.tuples(st.integers(2, 9), st.integers(2, 9), st.integers(0, 10_000))


@pytest.mark.slow
@given(shape=WEIGHTS)
def test_orthogonality_of_weights_is_zero_for_orthogonal_ones_and_its_floor_otherwise(
    shape: tuple[int, int, int],
) -> None:
    out, fan_in, seed = shape
    weight = haar(out, fan_in, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    assert float(metrics.soft_orthogonality(weight)) == pytest.approx(math.sqrt(max(0, fan_in - out)), abs=1e-9)
    floor = math.sqrt(abs(fan_in - out))
    assert float(metrics.double_sided_orthogonality(weight)) == pytest.approx(floor, abs=1e-9)
    assert float(metrics.double_sided_orthogonality(weight, remove_floor=True)) == pytest.approx(0, abs=1e-9)
    assert float(metrics.soft_orthogonality(weight, remove_floor=True)) == pytest.approx(0, abs=1e-9)
    assert float(metrics.spectral_deviation(weight)) == pytest.approx(0, abs=1e-9)
    fewer = "rows" if out <= fan_in else "columns"
    assert float(metrics.mutual_coherence(weight, vectors=fewer)) == pytest.approx(0, abs=1e-9)
    perturbed = weight + 0.1
    assert float(metrics.double_sided_orthogonality(perturbed, remove_floor=True)) > 0


@pytest.mark.slow
@given(shape=WEIGHTS)
def test_coherence_ignores_lengths_and_is_at_least_welchs_bound(shape: tuple[int, int, int]) -> None:
    vectors, units, seed = shape
    weight = hidden(vectors, units, seed)
    coherence = float(metrics.mutual_coherence(weight))
    lengths = torch.logspace(-3, 3, vectors, dtype=torch.float64).unsqueeze(1)
    assert coherence == pytest.approx(float(metrics.mutual_coherence(weight * lengths)), rel=1e-10)
    bound = math.sqrt(max(0, vectors - units) / (units * (vectors - 1)))
    assert bound - 1e-12 <= coherence <= 1 + 1e-12


def test_welchs_bound_is_met_by_a_simplex_and_coherence_needs_two_directions() -> None:
    simplex = torch.eye(4, dtype=torch.float64) - 0.25  # four vectors that span three dimensions
    assert float(metrics.mutual_coherence(simplex)) == pytest.approx(math.sqrt(1 / (3 * 3)))
    assert float(metrics.mutual_coherence(torch.tensor([[3.0, 4.0]]))) == 0
    assert float(metrics.mutual_coherence(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))) == 0
    assert float(metrics.mutual_coherence(torch.tensor([[3.0, 4.0], [0.0, 0.0], [-6.0, -8.0]]))) == pytest.approx(1)


def test_weight_vectors_are_rows_or_columns() -> None:
    weight = torch.tensor([[1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    assert float(metrics.parameter_independence(weight)) == pytest.approx(1 / 3)
    assert float(metrics.parameter_independence(weight, vectors="columns")) == pytest.approx(1 / 3)
    assert float(metrics.diagonal_dominance(weight, vectors="columns")) == pytest.approx(2 / 3)
    with pytest.raises(Exception, match="diagonals"):  # ValueError, or the type checker's while tests run
        metrics.parameter_independence(weight, vectors="diagonals")
