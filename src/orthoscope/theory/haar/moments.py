"""Moments of the entries of a random orthogonal matrix, as exact fractions."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from orthoscope.theory.haar.pairings import coset_type, pairing_orbits, pairings_of
from orthoscope.theory.haar.weingarten import weingarten
from orthoscope.theory.sources import source

LARGEST_DEGREE = 14


@source(
    "collins2006",
    "section 3, Weingarten formula of the orthogonal group",
    assumes="W uniform over O(d) (Haar), any d from 1",
)
def haar_moment(rows: Sequence[int | float], columns: Sequence[int | float], dimension: int) -> Fraction:
    r"""Mean of a product of entries of a Haar orthogonal matrix; indices run from 0 to $d-1$.

    $$ \mathbb E \prod_{t=1}^{2k} W_{i_t j_t}
       = \sum_{\mathfrak m} \sum_{\mathfrak n} \Delta_{\mathfrak m}(i)\, \Delta_{\mathfrak n}(j)\,
         \mathrm{Wg}_d(\text{coset type of } \mathfrak m, \mathfrak n) $$

    $\Delta_{\mathfrak m}(i) = 1$ if $\mathfrak m$ pairs only equal indices: nothing else is enumerated. Zero for odd
    degree, one for the empty product. Example: `haar_moment([0, 0], [0, 0], d)` is $1/d$.

    Cost: equal factors are interchangeable, so of one side only one pairing an orbit is used. The worst list has
    all rows or all columns equal, $(2k-1)!!$ pairings: 105 at degree 8, 945 at 10, 10395 at 12 (0.4 s), and at
    14, the largest degree taken, 135135 (some 5 s).
    """
    _refuse(rows, columns, dimension)
    labels = list(zip(rows, columns, strict=True))
    by_row, by_column = list(pairings_of(rows)), list(pairings_of(columns))
    if not by_row or not by_column:
        return Fraction(0)
    row_orbits, column_orbits = pairing_orbits(by_row, labels), pairing_orbits(by_column, labels)
    if len(row_orbits) * len(by_column) <= len(column_orbits) * len(by_row):
        orbits, others = row_orbits, by_column
    else:
        orbits, others = column_orbits, by_row
    types: Counter[tuple[int, ...]] = Counter()
    for pairing, size in orbits:
        for other in others:
            types[coset_type(pairing, other)] += size
    return sum((count * weingarten(kind, dimension) for kind, count in types.items()), Fraction(0))


def _refuse(rows: Sequence[int | float], columns: Sequence[int | float], dimension: int) -> None:
    if len(rows) != len(columns):
        raise ValueError(f"each factor has a row and a column, got {len(rows)} rows and {len(columns)} columns")
    if len(rows) > LARGEST_DEGREE:
        raise ValueError(f"a product of {len(rows)} entries has too many pairings: at most {LARGEST_DEGREE} are taken")
    if not isinstance(dimension, int) or dimension < 1:
        raise ValueError(f"an orthogonal matrix has a whole dimension of 1 or more, got {dimension}")
    for index in (*rows, *columns):
        if not isinstance(index, int):
            raise ValueError(f"an index is a whole number, got {index!r}")
        if not 0 <= index < dimension:
            raise ValueError(
                f"an index of a {dimension} x {dimension} matrix is from 0 to {dimension - 1}, got {index}"
            )
