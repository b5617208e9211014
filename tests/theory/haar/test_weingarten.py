"""The Weingarten function: printed values, and a pseudo-inverse of the matrix of loops."""

from fractions import Fraction
from math import factorial, prod

import numpy as np
import pytest

from orthoscope.theory.haar.moments import (
    Pairing,
    coset_type,
    doubled_shape_dimension,
    pairing_orbits,
    pairings_of,
    partitions,
    weingarten,
    zonal_spherical_functions,
)
from references.weingarten_twin import all_pairings, gram_pseudo_inverse, loop_counts

ROUNDING = 1e-12  # of a pseudo-inverse of a 105 x 105 matrix; measured 1e-16


@pytest.mark.parametrize("d", [3, 4, 7, 50])
def test_values_are_those_of_collins_and_matsumoto(d: int) -> None:
    four, six = d * (d + 2) * (d - 1), d * (d + 2) * (d + 4) * (d - 1) * (d - 2)
    assert weingarten((1,), d) == Fraction(1, d)
    assert weingarten((1, 1), d) == Fraction(d + 1, four)
    assert weingarten((2,), d) == Fraction(-1, four)
    assert weingarten((1, 1, 1), d) == Fraction(d * d + 3 * d - 2, six)
    assert weingarten((2, 1), d) == Fraction(-(d + 2), six)
    assert weingarten((3,), d) == Fraction(2, six)


def as_partners(pairing: frozenset[frozenset[int]]) -> Pairing:
    partner = {a: b for pair in pairing for a, b in (sorted(pair), sorted(pair, reverse=True))}
    return tuple(partner[position] for position in range(len(partner)))


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("degree", [2, 4, 6, 8])
def test_it_is_the_pseudo_inverse_of_the_matrix_of_loops_also_when_that_is_singular(
    degree: int, dimension: int
) -> None:
    pairings = [as_partners(pairing) for pairing in all_pairings(degree)]
    expected = gram_pseudo_inverse(degree, dimension)[0]
    values = np.array([float(weingarten(coset_type(pairings[0], other), dimension)) for other in pairings])
    assert np.abs(values - expected).max() < ROUNDING
    if dimension >= degree // 2:
        assert np.allclose(values @ float(dimension) ** loop_counts(degree), np.eye(len(pairings))[0], atol=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 6, 7])
def test_spherical_functions_are_orthogonal(degree: int) -> None:
    """Two shapes of 6 boxes, (3,1,1,1) and (2,2,2), have the same sum of contents: nothing may confuse them."""
    functions = zonal_spherical_functions(degree)
    shapes = partitions(degree)
    doubled = {mu: tuple(2 * part for part in mu) for mu in shapes}
    centraliser = {
        mu: prod(part ** two.count(part) * factorial(two.count(part)) for part in set(two))
        for mu, two in doubled.items()
    }
    pairings_of_type = {mu: Fraction(2**degree * factorial(degree), centraliser[mu]) for mu in shapes}
    pairings = factorial(2 * degree) // (2**degree * factorial(degree))
    assert sum(pairings_of_type.values()) == pairings
    for first in shapes:
        for second in shapes:
            inner = sum(pairings_of_type[mu] * functions[first][mu] * functions[second][mu] for mu in shapes)
            assert inner == (Fraction(pairings, doubled_shape_dimension(first)) if first == second else 0)


def test_there_are_odd_factorial_many_pairings_and_orbits_divide_them() -> None:
    assert [len(list(pairings_of("a" * size))) for size in (0, 2, 4, 6, 8)] == [1, 1, 3, 15, 105]
    assert list(pairings_of("aab")) == []
    assert set(pairings_of("abab")) == {(2, 3, 0, 1)}
    orbits = pairing_orbits(list(pairings_of("a" * 6)), "aabbcc")
    assert sum(size for _, size in orbits) == 15
    assert sorted(size for _, size in orbits) == [1, 2, 2, 2, 8]


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="dimension 1 or more, got 0"):
        weingarten((1,), 0)
    with pytest.raises(ValueError, match="largest first"):
        weingarten((1, 2), 3)
    with pytest.raises(ValueError, match="positive parts"):
        weingarten((2, 0), 3)
    with pytest.raises(ValueError, match="no loops"):
        coset_type((1, 0), (1, 0, 3, 2))
    with pytest.raises(ValueError, match="from 0, got -1"):
        partitions(-1)
