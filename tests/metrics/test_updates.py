"""What an update does: every metric against its definition in tests/references, closed forms, and its laws."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from orthoscope import metrics
from orthoscope.linalg import haar, polar_factor
from orthoscope.metrics.updates import leading_directions
from references import update_twins

SHAPES = [(2, 5), (5, 5), (6, 17), (9, 4), (4, 30)]
OF_BOTH = ["relative_size", "update_alignment"]  # of an update and its weight
OF_CHANGE = ["independence_change", "angle_change", "conformality_defect"]  # of a weight before and after
OF_UPDATE = ["semi_orthogonality_defect", "translation_defect"]
shapes = st.tuples(st.integers(2, 8), st.integers(2, 9), st.integers(0, 10_000))


def sample(rows: int, columns: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """A weight and an update of it, off every ideal point: shared mean, unequal lengths."""
    generator = torch.Generator().manual_seed(1000 * rows + 10 * columns + seed)
    lengths = torch.rand(rows, 1, generator=generator, dtype=torch.float64) + 0.5
    weight, noise = torch.randn(2, rows, columns, generator=generator, dtype=torch.float64)
    return (lengths * (weight + 0.2)).to(dtype), (0.3 * noise - 0.1 * weight + 0.05).to(dtype)


def value(name: str, weight: Tensor, update: Tensor) -> Tensor:
    metric = getattr(metrics, name)
    if name in OF_UPDATE:
        return metric(update)
    return metric(update, weight) if name in OF_BOTH else metric(weight, weight.double() + update.double())


def twin(name: str, weight: Tensor, update: Tensor) -> float:
    definition = getattr(update_twins, name)
    if name in OF_UPDATE:
        return definition(update)
    return definition(update, weight) if name in OF_BOTH else definition(weight, weight.double() + update.double())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*OF_BOTH, *OF_CHANGE, *OF_UPDATE])
def test_metric_is_its_definition_in_float64(name: str, shape: tuple[int, int], dtype: torch.dtype) -> None:
    weight, update = sample(*shape, dtype=dtype)
    if dtype is torch.bfloat16 and name in OF_CHANGE:
        weight, update = weight.float(), update.float()  # a bfloat16 sum is another weight; the twin sees the exact one
    measured = value(name, weight, update)
    assert measured.dtype is torch.float64
    assert float(measured) == pytest.approx(twin(name, weight, update), rel=1e-11, abs=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_spectral_size_and_shares_of_subspaces_are_those_of_mpmath(shape: tuple[int, int]) -> None:
    weight, update = sample(*shape)
    spectral = metrics.relative_size(update, weight, norm="spectral")
    assert float(spectral) == pytest.approx(update_twins.relative_spectral_size(update, weight), rel=1e-11)
    for rank in (1, min(shape) - 1):
        for side in ("left", "right", "both"):
            share = float(metrics.subspace_share(update, weight, rank, side=side))
            assert share == pytest.approx(update_twins.subspace_share(update, weight, rank, side), rel=1e-9)


@pytest.mark.parametrize("name", [*OF_BOTH, *OF_CHANGE, *OF_UPDATE])
def test_metric_of_a_stack_is_the_stack_of_metrics(name: str) -> None:
    both = [sample(4, 7, seed) for seed in range(6)]
    weights, updates = (torch.stack(list(side)).reshape(2, 3, 4, 7) for side in zip(*both, strict=True))
    expected = torch.stack([value(name, *pair) for pair in both]).reshape(2, 3)
    assert torch.allclose(value(name, weights, updates), expected, rtol=1e-12)
    shares = torch.stack([metrics.subspace_share(update, weight, 2) for weight, update in both]).reshape(2, 3)
    assert torch.allclose(metrics.subspace_share(updates, weights, 2), shares, rtol=1e-9)


@pytest.mark.slow
@given(shape=shapes, exponents=st.tuples(st.integers(-140, 140), st.integers(-140, 140)))
def test_angles_and_spectra_ignore_scale_and_sizes_follow_it(
    shape: tuple[int, int, int], exponents: tuple[int, int]
) -> None:
    weight, update = sample(*shape)
    small, large = (10.0**exponent for exponent in exponents)
    for name in ("update_alignment", *OF_UPDATE):
        assert float(value(name, weight * large, update * small)) == pytest.approx(float(value(name, weight, update)))
    for name in OF_CHANGE:
        assert float(value(name, weight * large, update * large)) == pytest.approx(
            float(value(name, weight, update)), rel=1e-6, abs=1e-12
        )
    for norm in ("frobenius", "spectral"):
        ratio = float(metrics.relative_size(update * small, weight * large, norm=norm))
        assert ratio / (small / large) == pytest.approx(float(metrics.relative_size(update, weight, norm=norm)))
    assert float(metrics.subspace_share(update * small, weight * large, 1)) == pytest.approx(
        float(metrics.subspace_share(update, weight, 1)), rel=1e-6, abs=1e-12
    )


@pytest.mark.slow
@given(shape=shapes)
def test_rotating_the_input_space_changes_nothing_and_the_output_space_only_angles(shape: tuple[int, int, int]) -> None:
    weight, update = sample(*shape)
    rows, columns, seed = shape
    generator = torch.Generator().manual_seed(seed)
    left, right = (haar(size, size, generator=generator, dtype=torch.float64) for size in (rows, columns))
    for name in (*OF_BOTH, *OF_CHANGE, *OF_UPDATE):
        turned = float(value(name, weight @ right, update @ right))
        assert turned == pytest.approx(float(value(name, weight, update)), rel=1e-6, abs=1e-9)
    for name in (*OF_BOTH, "semi_orthogonality_defect"):
        turned = float(value(name, left @ weight, left @ update))
        assert turned == pytest.approx(float(value(name, weight, update)), rel=1e-8, abs=1e-10)


def test_the_angles_would_notice_a_rotation_of_the_output_space() -> None:
    weight, update = sample(5, 9)
    left = haar(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned = float(value("angle_change", left @ weight, left @ update))
    assert turned != pytest.approx(float(value("angle_change", weight, update)), rel=1e-2)


@pytest.mark.slow
@given(shape=shapes)
def test_rotations_and_lengths_are_conformal_and_translations_are_not(shape: tuple[int, int, int]) -> None:
    weight, _ = sample(*shape)
    rows, columns, seed = shape
    generator = torch.Generator().manual_seed(seed)
    rotation = haar(columns, columns, generator=generator, dtype=torch.float64)
    lengths = 0.5 + torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    assert float(metrics.angle_change(weight, lengths * weight @ rotation)) == pytest.approx(0, abs=1e-7)
    assert float(metrics.independence_change(weight, lengths * weight @ rotation)) == pytest.approx(0, abs=1e-12)
    assert float(metrics.angle_change(weight, weight + torch.ones(columns, dtype=torch.float64))) > 1e-3


def test_the_translation_that_is_called_conformal_turns_a_right_angle_into_37_degrees() -> None:
    before = torch.eye(2, dtype=torch.float64)
    after = before + 1.0
    turned = math.pi / 2 - math.acos(0.8)
    assert float(metrics.angle_change(before, after)) == pytest.approx(turned)
    assert float(metrics.independence_change(before, after)) == pytest.approx(0.8)
    assert float(metrics.conformality_defect(before, after)) == pytest.approx(turned / math.sqrt(2))
    assert float(metrics.translation_defect(after - before)) == 0


def test_columns_are_the_rows_of_the_transpose() -> None:
    weight, update = sample(4, 6)
    for name in OF_CHANGE:
        metric = getattr(metrics, name)
        by_columns = float(metric(weight, weight + update, vectors="columns"))
        assert by_columns == pytest.approx(float(metric(weight.mT, (weight + update).mT)))
        assert by_columns != pytest.approx(float(metric(weight, weight + update)), rel=1e-3)


def test_random_updates_of_orthogonal_vectors_turn_them_as_theory_says() -> None:
    r"""$2/\sqrt{\pi m}$ radians per relative size, for small updates."""
    generator = torch.Generator().manual_seed(0)
    before = haar(30, 100, generator=generator, dtype=torch.float64)
    updates = 1e-4 * torch.randn(40, 30, 100, generator=generator, dtype=torch.float64)
    measured = metrics.conformality_defect(before.expand_as(updates).clone(), before + updates)
    error, theory = float(measured.std()) / math.sqrt(40), 2 / math.sqrt(math.pi * 100)
    assert abs(float(measured.mean()) - theory) < 4 * error
    assert abs(float(measured.mean()) - 1.03 * theory) > 4 * error, "three percent off must be seen"


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)], ids=str)
def test_an_orthogonalized_update_has_no_defect_and_rank_one_has_the_most(shape: tuple[int, int]) -> None:
    _, update = sample(*shape)
    smaller = min(shape)
    assert float(metrics.semi_orthogonality_defect(3e-5 * polar_factor(update))) == pytest.approx(0, abs=1e-12)
    rank_one = update[:, :1] @ update[:1]
    assert float(metrics.semi_orthogonality_defect(rank_one)) == pytest.approx(math.sqrt(1 - 1 / smaller))
    assert 0.05 < float(metrics.semi_orthogonality_defect(update)) < math.sqrt(1 - 1 / smaller)
    if shape[0] <= shape[1]:
        assert float(metrics.translation_defect(polar_factor(update))) == pytest.approx(math.sqrt(2))


def test_a_simplex_of_moves_is_the_furthest_from_a_translation() -> None:
    simplex = torch.eye(4, dtype=torch.float64) - 0.25
    assert float(metrics.translation_defect(simplex)) == pytest.approx(math.sqrt(2 * 4 / 3))


def test_decay_growth_and_orthogonal_moves_have_alignments_minus_one_one_and_zero() -> None:
    weight, update = sample(4, 6)
    assert float(metrics.update_alignment(-0.01 * weight, weight)) == pytest.approx(-1)
    assert float(metrics.update_alignment(2 * weight, weight)) == pytest.approx(1)
    beside = update - weight * (update * weight).sum() / weight.square().sum()
    assert float(metrics.update_alignment(beside, weight)) == pytest.approx(0, abs=1e-12)
    size, cosine = float(metrics.relative_size(update, weight)), float(metrics.update_alignment(update, weight))
    grown = float((weight + update).square().sum() / weight.square().sum())
    assert grown == pytest.approx(1 + 2 * cosine * size + size**2)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)], ids=str)
def test_an_update_inside_the_leading_space_has_all_its_energy_there_and_outside_none(shape: tuple[int, int]) -> None:
    weight, _ = sample(*shape)
    left, _, right = torch.linalg.svd(weight, full_matrices=False)
    inside = left[:, :2] @ torch.tensor([[1.0, 2.0], [3.0, -1.0]], dtype=torch.float64) @ right[:2]
    outside = left[:, 2:] @ right[2:]
    across = left[:, :1] @ right[3:4]
    for side in ("left", "right", "both"):
        assert float(metrics.subspace_share(inside, weight, 2, side=side)) == pytest.approx(1)
        assert float(metrics.subspace_share(outside, weight, 2, side=side)) == pytest.approx(0, abs=1e-12)
    shares = [float(metrics.subspace_share(across, weight, 2, side=side)) for side in ("left", "right", "both")]
    assert shares == pytest.approx([1, 0, 0], abs=1e-12)


def test_random_updates_spread_evenly_over_subspaces() -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(12, 20, generator=generator, dtype=torch.float64)
    updates = torch.randn(2000, 12, 20, generator=generator, dtype=torch.float64)
    for side, expected in (("left", 3 / 12), ("right", 3 / 20), ("both", 9 / 240)):
        shares = metrics.subspace_share(updates, weight.expand_as(updates), 3, side=side)
        assert abs(float(shares.mean()) - expected) < 4 * float(shares.std()) / math.sqrt(2000)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4), (5, 5)], ids=str)
def test_leading_directions_are_orthonormal_and_belong_together(shape: tuple[int, int]) -> None:
    weight, _ = sample(*shape)
    left, right = leading_directions(weight, 3)
    eye = torch.eye(3, dtype=torch.float64)
    assert torch.allclose(left.mT @ left, eye, atol=1e-12)
    assert torch.allclose(right.mT @ right, eye, atol=1e-12)
    kept = torch.linalg.svdvals(left.mT @ weight @ right)
    assert torch.allclose(kept, torch.linalg.svdvals(weight)[:3], rtol=1e-10)


def test_nothing_that_moved_has_no_direction_and_zero_weights_have_no_size() -> None:
    weight, update = sample(3, 4)
    nothing = torch.zeros(3, 4)
    assert float(metrics.relative_size(nothing, weight)) == 0
    assert float(metrics.relative_size(update, nothing)) == math.inf
    for undefined in (
        metrics.relative_size(nothing, nothing),
        metrics.update_alignment(nothing, weight),
        metrics.update_alignment(update, nothing),
        metrics.semi_orthogonality_defect(nothing),
        metrics.translation_defect(nothing),
        metrics.subspace_share(nothing, weight, 1),
        metrics.conformality_defect(weight, weight),
        metrics.angle_change(weight[:1], weight[:1]),
    ):
        assert math.isnan(float(undefined))
    assert float(metrics.subspace_share(update, nothing, 3)) <= 1 + 1e-12
    assert float(metrics.angle_change(weight, weight)) == 0


def test_a_vector_that_is_zero_before_or_after_is_left_out_of_the_angles() -> None:
    before = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    after = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
    assert float(metrics.angle_change(before, after)) == pytest.approx(math.pi / 4)


@pytest.mark.parametrize("name", [*OF_BOTH, *OF_CHANGE, *OF_UPDATE])
def test_nan_is_never_a_healthy_number(name: str) -> None:
    weight, update = sample(4, 6)
    update[1, 2] = torch.nan
    try:
        assert math.isnan(float(value(name, weight, update)))
    except RuntimeError:  # LAPACK refuses to iterate on nan
        assert name == "semi_orthogonality_defect"


@pytest.mark.parametrize("name", [*OF_BOTH, *OF_CHANGE, *OF_UPDATE])
def test_metric_can_be_differentiated(name: str) -> None:
    weight, update = (matrix.requires_grad_() for matrix in sample(4, 6, 3))
    assert torch.autograd.gradcheck(lambda w, u: value(name, w, u), (weight, update))


def test_a_share_can_be_differentiated_in_the_update() -> None:
    weight, update = sample(4, 6)
    update.requires_grad_()
    assert torch.autograd.gradcheck(lambda u: metrics.subspace_share(u, weight, 2), (update,))


def test_mistakes_are_refused_in_one_sentence() -> None:
    weight, update = sample(3, 4)
    with pytest.raises(ValueError, match=r"shape \(3, 4\) has no 4 singular vectors: choose a lower rank"):
        metrics.subspace_share(update, weight, 4)
    for wrong in (
        lambda: metrics.relative_size(update, weight, norm="nuclear"),
        lambda: metrics.subspace_share(update, weight, 1, side="top"),
        lambda: metrics.angle_change(weight, update, vectors="diagonals"),
        lambda: metrics.update_alignment(update[:1], weight),
    ):
        with pytest.raises(Exception, match=r"nuclear|top|diagonals|one shape|Type-check"):  # or jaxtyping, under test
            wrong()
