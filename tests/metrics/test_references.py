"""Every metric against its definition, written independently in tests/references."""

import pytest
import torch

from orthoscope import metrics
from orthoscope.linalg import gram_factor, haar
from orthoscope.metrics.representations import _gap_of_square, factor_isometry_gap
from references import slow_twins

SHAPES = [(2, 5), (5, 5), (6, 17), (9, 4), (7, 40)]
REPRESENTATION = ["orthogonality_gap", "mean_overlap", "overlap_potential", "effective_rank", "stable_rank"]
WEIGHT = [
    "parameter_independence",
    "diagonal_dominance",
    "soft_orthogonality",
    "double_sided_orthogonality",
    "spectral_deviation",
    "mutual_coherence",
]


def sample(shape: tuple[int, int], dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(shape[0] * 100 + shape[1])
    # Off the ideal point: a shared mean and unequal lengths.
    lengths = torch.rand(shape[0], 1, generator=generator) + 0.5
    return (lengths * (torch.randn(shape, generator=generator) + 0.3)).to(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [*REPRESENTATION, *WEIGHT, "mean_energy", "length_spread", "log_norm"])
def test_metric_is_its_definition(name: str, shape: tuple[int, int]) -> None:
    matrix = sample(shape)
    assert float(getattr(metrics, name)(matrix)) == pytest.approx(getattr(slow_twins, name)(matrix), rel=1e-11)


@pytest.mark.parametrize("shape", [(5, 5), (6, 17), (7, 40)])
@pytest.mark.parametrize("name", ["mean_overlap", "effective_rank", "stable_rank"])
def test_centered_metric_is_the_metric_of_the_batch_without_its_mean(name: str, shape: tuple[int, int]) -> None:
    matrix = sample(shape)
    expected = getattr(slow_twins, name)(slow_twins.centered(matrix))
    assert float(getattr(metrics, name)(matrix, centered=True)) == pytest.approx(expected, rel=1e-7)
    assert expected != pytest.approx(getattr(slow_twins, name)(matrix), rel=1e-2), "centering must matter here"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", [*REPRESENTATION, *WEIGHT])
def test_low_precision_input_is_reduced_in_float64(name: str, dtype: torch.dtype) -> None:
    matrix = sample((6, 17), dtype)
    value = getattr(metrics, name)(matrix)
    assert value.dtype is torch.float64
    assert float(value) == pytest.approx(getattr(slow_twins, name)(matrix), rel=1e-11)


def with_condition(condition: float, samples: int, units: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(samples)
    values = torch.logspace(0, -1, samples, base=condition, dtype=torch.float64)
    left = haar(samples, samples, generator=generator, dtype=torch.float64)
    right = haar(samples, units, generator=generator, dtype=torch.float64)
    return left @ (values[:, None] * right)


@pytest.mark.parametrize("condition", [1e1, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("shape", [(12, 12), (12, 30), (12, 200)])
def test_isometry_gap_is_right_to_nine_digits_up_to_condition_1e8(condition: float, shape: tuple[int, int]) -> None:
    hidden = with_condition(condition, *shape)
    assert float(metrics.isometry_gap(hidden)) == pytest.approx(slow_twins.isometry_gap(hidden), rel=1e-9)


def test_the_gap_of_as_many_samples_as_units_is_the_same_by_elimination_and_by_rotations() -> None:
    near = torch.stack([with_condition(condition, 20, 20) for condition in (1.001, 1.1, 3.0)])
    by_elimination = _gap_of_square(near)
    assert by_elimination is not None
    for same in (factor_isometry_gap(gram_factor(near)), metrics.isometry_gap(near)):
        torch.testing.assert_close(by_elimination, same, rtol=1e-9, atol=20 * 2.2e-16)
    # Orthogonal, and its pivots double with every column: the determinant of the triangle is all rounding.
    growing = torch.linalg.qr(torch.eye(50, dtype=torch.float64) - 0.99 * torch.ones(50, 50).tril(-1)).Q
    growing[:, -2:] @= haar(2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert _gap_of_square(growing) is None
    assert float(metrics.isometry_gap(growing)) < 1e-14
    for in_doubt in (
        with_condition(1e4, 20, 20),
        with_condition(3.0, 20, 21),
        near * 0,
        near * torch.nan,
        near.clone().requires_grad_(),
    ):
        assert _gap_of_square(in_doubt) is None


def test_the_gram_matrix_would_have_been_wrong_at_condition_1e8() -> None:
    hidden = with_condition(1e8, 12, 12)
    eigenvalues = torch.linalg.eigvalsh(hidden @ hidden.mT).abs()
    naive = float(eigenvalues.mean().log() - eigenvalues.log().mean())
    assert naive != pytest.approx(slow_twins.isometry_gap(hidden), rel=1e-5)


@pytest.mark.parametrize("condition", [1e15, 1e17])
def test_isometry_gap_is_infinite_where_float64_cannot_tell(condition: float) -> None:
    assert float(metrics.isometry_gap(with_condition(condition, 12, 30))) == torch.inf
    assert float(metrics.isometry(with_condition(condition, 12, 30))) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(6, 17), (40, 12)])
def test_numerical_rank_is_the_rank_of_the_gram_matrix(shape: tuple[int, int], dtype: torch.dtype) -> None:
    full = sample(shape, dtype)
    deficient = torch.cat([full, full[:2] * 2])
    for hidden in (full, deficient):
        assert float(metrics.numerical_rank(hidden)) == slow_twins.numerical_rank(hidden)


def test_numerical_rank_counts_at_the_precision_it_is_asked_for() -> None:
    hidden = with_condition(1e5, 20, 40)  # squared: 1e10, between the two epsilons
    assert float(metrics.numerical_rank(hidden)) == 20
    assert float(metrics.numerical_rank(hidden, precision=torch.float32)) < 20


def test_random_rows_have_the_parameter_independence_of_theory() -> None:
    r"""Gaussian rows of dimension m: $\Gamma(m/2)/(\sqrt\pi\,\Gamma((m+1)/2))$, 0.0499 at 256 and 0.0707 at 128."""
    generator = torch.Generator().manual_seed(0)
    for dimension, expected in ((256, 0.0499), (128, 0.0706)):
        half = torch.tensor(dimension / 2, dtype=torch.float64)
        theory = float((half.lgamma() - (half + 0.5).lgamma()).exp() / torch.pi**0.5)
        assert theory == pytest.approx(expected, abs=1e-4)
        measured = metrics.parameter_independence(torch.randn(16, 200, dimension, generator=generator))
        error = float(measured.std() / 16**0.5)
        assert abs(float(measured.mean()) - theory) < 4 * error
        assert abs(float(measured.mean()) - 1.02 * theory) > 4 * error, "two percent off must be seen"


def test_gradient_disparity_is_the_mean_distance_of_two_rows() -> None:
    rows = sample((5, 3))
    distances = [float((rows[i] - rows[j]).norm()) for i in range(5) for j in range(i)]
    assert float(metrics.gradient_disparity(rows)) == pytest.approx(sum(distances) / len(distances))


def test_rms_operator_norm_is_the_largest_growth_of_a_root_mean_square() -> None:
    weight = sample((4, 9))
    right = torch.linalg.svd(weight).Vh[0]
    growth = (weight @ right).square().mean().sqrt() / right.square().mean().sqrt()
    assert float(metrics.rms_operator_norm(weight)) == pytest.approx(float(growth))
    others = torch.randn(200, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ratios = (others @ weight.mT).square().mean(-1).sqrt() / others.square().mean(-1).sqrt()
    assert (ratios <= growth + 1e-12).all()


def test_singular_values_are_those_of_mpmath() -> None:
    for shape in SHAPES:
        ours = metrics.singular_values(sample(shape)).tolist()
        assert ours == pytest.approx(slow_twins.singular_values(sample(shape)), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("size", [16, 24])
def test_a_wide_batch_with_a_harmless_diagonal_is_not_taken_for_well_conditioned(size: int) -> None:
    """Kahan's kind of triangle: ones on the diagonal, exponentially ill-conditioned; wide, to tempt the shortcut."""
    generator = torch.Generator().manual_seed(size)
    triangle = torch.eye(size, dtype=torch.float64) - torch.ones(size, size, dtype=torch.float64).tril(-1)
    triangle *= 1 + 0.1 * torch.rand(size, size, generator=generator, dtype=torch.float64)
    hidden = triangle @ haar(size, 9 * size, generator=generator, dtype=torch.float64)
    assert 1e4 < float(torch.linalg.cond(hidden)) < 1e8
    assert float(metrics.isometry_gap(hidden)) == pytest.approx(slow_twins.isometry_gap(hidden), rel=1e-9)


def test_one_sample_cannot_be_centered() -> None:
    with pytest.raises(ValueError, match="needs at least 2"):
        metrics.orthogonality_gap(torch.ones(1, 4), centered=True)


@pytest.mark.parametrize("name", ["orthogonality_gap", "soft_orthogonality", "double_sided_orthogonality"])
def test_the_gradient_at_the_optimum_is_zero_and_not_nan(name: str) -> None:
    identity = torch.eye(4, dtype=torch.float64, requires_grad=True)
    getattr(metrics, name)(identity).backward()
    assert identity.grad is not None
    assert torch.equal(identity.grad, torch.zeros(4, 4, dtype=torch.float64))
