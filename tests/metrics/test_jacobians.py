"""Scores of residual alignment: against their definitions, on networks built so that every score is known, and laws."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from orthoscope import metrics
from orthoscope.linalg import haar
from orthoscope.metrics.jacobians import defined_median
from orthoscope.models import ResNet
from orthoscope.probe import ResidualJacobians, residual_jacobians
from orthoscope.theory import aligned_representations, equispacing_singular_values
from references import alignment_twins as twins

paths = st.tuples(st.integers(3, 9), st.integers(2, 12), st.integers(0, 10_000))
RA1 = ["line_shape", "step_cosine", "spacing_variation"]


def walk(points: int, units: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(points, units, generator=generator, dtype=torch.float64).cumsum(0) + 0.1


class LinearBlock(nn.Module):
    """h + hJᵀ: a residual block whose Jacobian is what one says."""

    def __init__(self, jacobian: Tensor) -> None:
        super().__init__()
        self.jacobian = nn.Parameter(jacobian)

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + hidden @ self.jacobian.mT


def linear_network(jacobians: Tensor, start: Tensor, **options: int) -> ResidualJacobians:
    model = nn.Sequential(*(LinearBlock(jacobian) for jacobian in jacobians))
    return residual_jacobians(model, start, **options)


def aligned(depth: int, size: int, values: Tensor, rank: int = 1) -> tuple[Tensor, Tensor]:
    """One frame for all blocks, and singular values over blocks and directions."""
    frame = haar(size, rank, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (frame * values.unsqueeze(-2)) @ frame.mT, frame


@pytest.mark.slow
@pytest.mark.parametrize("name", RA1)
@given(shape=paths)
def test_scores_of_a_path_are_their_definitions(name: str, shape: tuple[int, int, int]) -> None:
    path = walk(*shape)
    assert float(getattr(metrics, name)(path)) == pytest.approx(getattr(twins, name)(path), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", RA1)
@given(shape=paths, exponent=st.integers(-100, 100))
def test_scores_of_a_path_ignore_scale_rotation_place_and_direction(
    name: str, shape: tuple[int, int, int], exponent: int
) -> None:
    path, score = walk(*shape), getattr(metrics, name)
    rotation = haar(shape[1], shape[1], generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = score(path)
    for same in (path * 10.0**exponent, path @ rotation, path + 0.5, path.flip(0)):
        assert torch.allclose(score(same), expected, rtol=1e-7, atol=1e-9)
    assert torch.allclose(score(torch.stack([path, 2 * path])), expected, rtol=1e-12)


def test_a_line_and_random_steps() -> None:
    line = torch.linspace(0, 1, 9, dtype=torch.float64).unsqueeze(-1) * torch.randn(50, dtype=torch.float64)
    assert float(metrics.line_shape(line)) == pytest.approx(1)
    assert float(metrics.step_cosine(line)) == pytest.approx(1)
    assert float(metrics.spacing_variation(line)) == pytest.approx(0, abs=1e-12)
    random = walk(17, 20_000, 0)
    assert float(metrics.line_shape(random)) == pytest.approx(math.sqrt(16), rel=0.02)
    assert float(metrics.step_cosine(random)) == pytest.approx(0, abs=0.02)


def test_steps_of_dead_blocks_have_no_direction() -> None:
    path = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]])
    assert float(metrics.line_shape(path)) == 1
    assert float(metrics.step_cosine(path)) == 1
    assert float(metrics.spacing_variation(path)) > 0
    assert metrics.step_cosine(torch.zeros(4, 2)).isnan()
    with pytest.raises(ValueError, match="at least two points, got 1"):
        metrics.line_shape(torch.zeros(1, 2))


@given(st.lists(st.floats(0.01, 50), min_size=3, max_size=20).filter(lambda found: max(found) > 1.01 * min(found)))
def test_the_law_of_depth_is_least_squares(leading: list[float]) -> None:
    law = metrics.depth_law(torch.tensor(leading, dtype=torch.float64))
    assert [float(part) for part in law] == pytest.approx(twins.depth_law(leading), rel=1e-6, abs=1e-7)


def test_the_law_of_depth_at_exact_cases() -> None:
    law = metrics.depth_law(1 / torch.arange(1, 13, dtype=torch.float64))
    assert [float(part) for part in law] == pytest.approx([1, 0, 1, -1], abs=1e-12)
    equal = metrics.depth_law(equispacing_singular_values(9, first=0.25))
    assert [float(part) for part in equal[:3]] == pytest.approx([1, 3, 1])
    flat = metrics.depth_law(torch.full((6,), 0.4, dtype=torch.float64))
    assert float(flat.exponent) == pytest.approx(0, abs=1e-12)


def test_dead_blocks_are_no_points_of_the_line() -> None:
    leading = 1 / torch.arange(1, 9, dtype=torch.float64)
    killed = leading.clone()
    killed[[2, 5]] = torch.tensor([0.0, 1e-9], dtype=torch.float64)
    assert metrics.dead_blocks(killed).nonzero().flatten().tolist() == [2, 5]
    assert float(metrics.depth_law(killed).r_squared) == pytest.approx(1)
    assert float(metrics.depth_law(killed).slope) == pytest.approx(1)
    both = metrics.depth_law(torch.stack([leading, torch.zeros(8, dtype=torch.float64)]))
    assert both.slope[0] == pytest.approx(1)
    assert both.slope[1].isnan()


@pytest.mark.slow
def test_an_aligned_network_of_rank_one_with_one_over_i_has_all_four_perfect() -> None:
    """Theorem 3.1 of li2023, in the corrected form: points on a line, equally far apart."""
    depth, size = 8, 20
    values = equispacing_singular_values(depth).unsqueeze(-1)
    jacobians, frame = aligned(depth, size, values)
    start = torch.randn(2, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    blocks = linear_network(jacobians, start)
    expected = aligned_representations(start[0], frame, values)
    assert torch.allclose(torch.stack([point[0] for point in blocks.path]), expected)
    found = metrics.residual_alignment(blocks, blocks.path, classes=1)
    one, zero = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    perfect = {"line_shape": one, "step_cosine": one, "spacing_variation": zero, "misalignment": zero}
    for name, value in (perfect | {"reversed_misalignment": zero}).items():
        assert torch.allclose(getattr(found, name), value, atol=1e-9), name
    assert torch.allclose(found.rank_ratio, torch.zeros(depth, 2, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(found.top_energy, torch.ones(depth, 2, dtype=torch.float64))
    assert torch.allclose(found.law.slope, one)
    assert torch.allclose(found.law.r_squared, one)
    assert torch.allclose(found.law.exponent, -one)
    assert torch.allclose(found.left_right[3, 5, 0], values[3].unsqueeze(0))


@pytest.mark.slow
def test_unrelated_jacobians_are_not_aligned_and_rotated_ones_only_forward() -> None:
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(1, 60, dtype=torch.float64, generator=generator)
    random = torch.randn(5, 60, 60, dtype=torch.float64, generator=generator) / 60
    blocks = linear_network(random, start)
    found = metrics.residual_alignment(blocks, blocks.path, classes=3)
    assert found.misalignment.item() == pytest.approx(1, abs=0.1)
    assert found.law.r_squared.item() < 0.9
    assert found.rank_ratio.min().item() > 0.5
    left, right = (haar(60, 60, generator=generator, dtype=torch.float64) for _ in range(2))
    values = torch.linspace(2, 1, 5, dtype=torch.float64).unsqueeze(-1) * torch.logspace(0, -2, 60, dtype=torch.float64)
    blocks = linear_network((left * values.unsqueeze(-2)) @ right, start)
    turned = metrics.residual_alignment(blocks, blocks.path, classes=3)
    assert turned.misalignment.item() == pytest.approx(0, abs=1e-9)
    assert turned.reversed_misalignment.item() > 0.7


@pytest.mark.parametrize("count", [1, 3])
def test_misalignment_of_pairs_is_its_definition(count: int) -> None:
    generator = torch.Generator().manual_seed(3)
    jacobians = torch.randn(3, 7, 7, dtype=torch.float64, generator=generator)
    blocks = linear_network(jacobians, torch.randn(1, 7, dtype=torch.float64, generator=generator))
    found = metrics.residual_alignment(blocks, blocks.path, classes=count)
    for i in range(3):
        for j in range(3):
            expected = twins.misalignment(jacobians[i], jacobians[j], count)
            assert found.pairs[i, j].item() == pytest.approx(expected, abs=1e-10)
    assert torch.allclose(found.pairs.diagonal(), torch.zeros(1, 3, dtype=torch.float64), atol=1e-10)


@pytest.mark.slow
def test_stages_of_different_sizes_are_compared_within_themselves(generator: torch.Generator) -> None:
    model = ResNet(kind=3, blocks=(3, 3), width=3, in_channels=1, image_size=6, generator=generator)
    blocks = residual_jacobians(model, torch.randn(2, 1, 6, 6, generator=generator), dtype=torch.float64)
    found = metrics.residual_alignment(blocks, blocks.path, classes=4)
    defined = ~found.pairs[..., 0].isnan()
    stage = torch.tensor([0, 0, 0, 1, 2, 2])
    assert torch.equal(defined, stage.unsqueeze(0) == stage.unsqueeze(1))
    assert found.misalignment.isfinite().all()
    first, second = torch.stack(blocks.path[:4], dim=1), torch.stack(blocks.path[4:], dim=1)
    expected = (3 * metrics.line_shape(first) + 2 * metrics.line_shape(second)) / 5
    assert torch.allclose(found.line_shape, expected)
    assert found.law.slope.isfinite().all()


@pytest.mark.slow
def test_a_dead_block_is_named_and_takes_no_other_with_it(generator: torch.Generator) -> None:
    model = ResNet(kind=1, blocks=5, width=16, in_channels=1, image_size=4, generator=generator)
    nn.init.zeros_(model.layers[2].branch.weight2.weight)
    blocks = residual_jacobians(model, torch.randn(1, 1, 4, 4, generator=generator))
    found = metrics.residual_alignment(blocks, blocks.path)
    assert found.dead[:, 0].tolist() == [False, False, True, False, False]
    assert found.pairs[2].isnan().all()
    assert found.pairs[:, 2].isnan().all()
    assert found.misalignment.isfinite().all()
    assert found.step_cosine.isfinite().all()
    assert found.law.r_squared.isfinite().all()


def test_rank_energy_condition_and_isometry_by_hand() -> None:
    values = torch.tensor([4.0, 2.0, 1.0, 0.5], dtype=torch.float64)
    assert float(metrics.rank_ratio(values, 2)) == 0.25
    assert float(metrics.top_energy(values, values.square().sum(), 2)) == pytest.approx(20 / 21.25)
    assert float(metrics.condition_number(values)) == 8
    mean, spread = metrics.dynamical_isometry(values)
    logs = [math.log(value) for value in values.tolist()]
    assert float(mean) == pytest.approx(sum(logs) / 4)
    assert float(spread) == pytest.approx(math.sqrt(sum((log - sum(logs) / 4) ** 2 for log in logs) / 4))
    rotation = torch.linalg.svdvals(haar(9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
    assert [float(part) for part in metrics.dynamical_isometry(rotation)] == pytest.approx([0, 0], abs=1e-12)
    assert float(metrics.condition_number(torch.tensor([1.0, 0.0]))) == math.inf
    with pytest.raises(ValueError, match="needs 5 singular values, got 4: ask for top=5"):
        metrics.rank_ratio(values, 4)


def test_alignment_of_too_few_singular_values_says_that_the_rank_is_unknown() -> None:
    generator = torch.Generator().manual_seed(0)
    jacobians = torch.randn(3, 9, 9, dtype=torch.float64, generator=generator)
    blocks = linear_network(jacobians, torch.randn(1, 9, dtype=torch.float64, generator=generator), top=3)
    found = metrics.residual_alignment(blocks, blocks.path, classes=3)
    assert found.rank_ratio.isnan().all()
    assert metrics.residual_alignment(blocks, blocks.path, classes=2).rank_ratio.isfinite().all()
    with pytest.raises(ValueError, match="no Jacobian was given"):
        metrics.residual_alignment([], [])


def test_the_median_of_two_is_between_them_and_what_is_not_finite_does_not_count() -> None:
    assert defined_median(torch.tensor([1.0, 3.0])) == 2
    assert defined_median(torch.tensor([torch.nan, 5.0, 1.0, torch.inf, 2.0])) == 2
    assert math.isnan(defined_median(torch.tensor([torch.nan])))


def test_more_classes_than_dimensions_say_nothing_of_the_rank_and_none_are_refused() -> None:
    model = ResNet(kind=1, blocks=3, width=6, in_channels=1, image_size=4)
    blocks = residual_jacobians(model, torch.randn(2, 1, 4, 4))
    assert metrics.residual_alignment(blocks, blocks.path, classes=6).rank_ratio.isnan().all()
    with pytest.raises(ValueError, match=r"classes=0, but must be at least 1"):
        metrics.residual_alignment(blocks, blocks.path, classes=0)
