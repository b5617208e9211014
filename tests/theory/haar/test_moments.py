"""Haar moments: closed forms, the circle, orthogonality, brute force, and sampled matrices."""

from fractions import Fraction
from itertools import product
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from orthoscope.linalg import haar
from orthoscope.theory.haar.moments import haar_moment
from references.weingarten_twin import moment


@pytest.mark.parametrize("d", [2, 3, 10])
def test_the_two_moments_of_the_thesis_and_the_fourth(d: int) -> None:
    assert haar_moment([0, 0, 1, 1], [0, 0, 1, 1], d) == Fraction(d + 1, d * (d + 2) * (d - 1))
    assert haar_moment([0, 0, 1, 1], [0, 0, 0, 0], d) == Fraction(1, d * (d + 2))
    assert haar_moment([0] * 4, [0] * 4, d) == Fraction(3, d * (d + 2))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 6])
def test_even_moments_of_one_entry_are_those_of_a_point_on_the_sphere(k: int, d: int) -> None:
    closed_form = prod((Fraction(2 * i + 1, d + 2 * i) for i in range(k)), start=Fraction(1))
    assert haar_moment([0] * 2 * k, [0] * 2 * k, d) == closed_form


def circle_moment(rows: tuple[int, ...], columns: tuple[int, ...]) -> float:
    """O(2) is two circles; equally spaced angles integrate trigonometric polynomials of lower degree exactly."""
    angle = torch.arange(16, dtype=torch.float64) * torch.pi / 8
    cosine, sine = angle.cos(), angle.sin()
    rotation, reflection = [[cosine, -sine], [sine, cosine]], [[cosine, sine], [sine, -cosine]]
    values = [
        prod((matrix[i][j] for i, j in zip(rows, columns, strict=True)), start=torch.ones(16, dtype=torch.float64))
        for matrix in (rotation, reflection)
    ]
    return float(torch.stack(values).mean())


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_every_moment_of_the_circle_comes_out(degree: int) -> None:
    for rows in product((0, 1), repeat=degree):
        for columns in product((0, 1), repeat=degree):
            assert float(haar_moment(rows, columns, 2)) == pytest.approx(circle_moment(rows, columns), abs=1e-15)


def test_degree_eight_of_the_circle_where_the_matrix_of_loops_is_singular(generator: torch.Generator) -> None:
    lists = torch.randint(2, (200, 2, 8), generator=generator)
    exact = [haar_moment(rows, columns, 2) for rows, columns in lists.tolist()]
    assert sum(value != 0 for value in exact) > 10
    for value, (rows, columns) in zip(exact, lists.tolist(), strict=True):
        assert float(value) == pytest.approx(circle_moment(tuple(rows), tuple(columns)), abs=1e-15)


indices = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8)


@pytest.mark.slow
@given(indices)
def test_moments_agree_with_brute_force(entries: list[tuple[int, int]]) -> None:
    rows, columns = [i for i, _ in entries], [j for _, j in entries]
    expected = moment(rows, columns, 3) if entries else 1.0
    assert float(haar_moment(rows, columns, 3)) == pytest.approx(expected, abs=1e-13)


@given(indices, st.integers(3, 5), st.integers(0, 2), st.integers(0, 2))
def test_rows_are_orthonormal_whatever_else_is_in_the_product(
    entries: list[tuple[int, int]], d: int, first: int, second: int
) -> None:
    r"""$\sum_j \mathbb E[W_{ij} W_{i'j} \cdots] = \delta_{ii'}\, \mathbb E[\cdots]$, exactly."""
    rows, columns = [i for i, _ in entries], [j for _, j in entries]
    total = sum(haar_moment([*rows, first, second], [*columns, j, j], d) for j in range(d))
    assert total == (haar_moment(rows, columns, d) if first == second else 0)
    assert haar_moment(rows, columns, d) == haar_moment(columns, rows, d)
    swapped = [{0: 2, 2: 0}.get(i, i) for i in rows]
    assert haar_moment(rows, columns, d) == haar_moment(swapped, columns, d)


def test_sampled_matrices_have_these_moments(generator: torch.Generator) -> None:
    d = 4
    weights = haar(d, d, 100_000, generator=generator, dtype=torch.float64)
    cases = [
        ([0, 0, 1, 1], [0, 1, 0, 1]),
        ([0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 0]),
        ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1, 2, 3, 2, 3]),
        ([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 0, 1, 1]),
    ]
    rejected = 0
    for rows, columns in cases:
        samples = weights[:, rows, columns].prod(-1)
        error = float(samples.std()) / len(samples) ** 0.5
        assert abs(float(samples.mean()) - float(haar_moment(rows, columns, d))) < 4 * error
        independent = prod(
            Fraction({0: 1, 1: 0, 2: 1, 3: 0, 4: 3}[count], d ** (count // 2))
            for count in [list(zip(rows, columns, strict=True)).count((i, j)) for i in range(d) for j in range(d)]
        )
        rejected += abs(float(samples.mean()) - float(independent)) > 10 * error
    assert rejected == len(cases), "the sample must tell these from moments of independent normal entries"


@pytest.mark.slow
def test_a_high_degree_is_consistent_with_the_one_below() -> None:
    rows, columns = [0] * 6 + [1] * 4, [0, 0, 1, 1, 2, 2, 0, 0, 1, 1]
    total = sum(haar_moment([*rows, 0, 0], [*columns, j, j], 4) for j in range(4))
    assert total == haar_moment(rows, columns, 4) > 0
    assert haar_moment([0] * 7 + [1] * 5, [0] * 12, 4) == 0, "odd in a row: changing its sign changes nothing"


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="16 entries has too many pairings: at most 14"):
        haar_moment([0] * 16, [0] * 16, 10)
    with pytest.raises(ValueError, match="got 2 rows and 1 columns"):
        haar_moment([0, 0], [0], 3)
    with pytest.raises(ValueError, match="dimension of 1 or more, got 0"):
        haar_moment([], [], 0)
    with pytest.raises(ValueError, match="from 0 to 2, got 3"):
        haar_moment([0, 3], [0, 0], 3)
    with pytest.raises(ValueError, match="from 0 to 2, got -1"):
        haar_moment([0, 0], [0, -1], 3)
    with pytest.raises(ValueError, match=r"whole number, got 1\.0"):
        haar_moment([0, 1.0], [0, 1.0], 3)
