r"""Moments of the entries of a Haar orthogonal matrix, as exact fractions, by Weingarten calculus.

`haar_moment` sums the Weingarten function over pairs of pairings of $2k$ positions; a pairing is the tuple of partners,
`(1, 0, 3, 2)` joins position 0 to 1 and 2 to 3. `weingarten` is computed in every dimension from the zonal spherical
functions of the pair $(S_{2k}, H_k)$. Reads top-down: moments, Weingarten function, zonal functions, pairings.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import factorial, prod
from typing import TypeAlias

from orthoscope.theory.sources import source

Pairing: TypeAlias = tuple[int, ...]
Partition: TypeAlias = tuple[int, ...]

_ANY = "nothing: combinatorics"
_HAAR = "W uniform over O(d) (Haar), any d from 1"
LARGEST_DEGREE = 14


@source("collins2006", "section 3, Weingarten formula of the orthogonal group", assumes=_HAAR)
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

    Args:
        rows: $i_t$.
        columns: $j_t$.
        dimension: Size $d$ of a matrix, or entries $m$ of a vector.
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


@source("lu2024", "PII of a weight at its start", assumes="weight vectors independent and uniform in direction")
def random_parameter_independence(dimension: int) -> float:
    r"""Mean $|\cos|$ of two random vectors of $m$ entries: $\Gamma(m/2) / (\sqrt\pi\,\Gamma((m+1)/2))$.

    About $\sqrt{2/(\pi m)}$; 1 in one dimension, $2/\pi$ in two. `metrics.parameter_independence` measures it.
    """
    if dimension < 1:
        raise ValueError(f"a vector has at least one entry, got dimension {dimension}")
    return math.exp(math.lgamma(dimension / 2) - math.lgamma((dimension + 1) / 2)) / math.sqrt(math.pi)


@source("collins2006", "section 3, orthogonal Weingarten function", assumes=_HAAR)
@cache
def weingarten(partition: Partition, dimension: int) -> Fraction:
    r"""Weight of two pairings with coset type $\mu$, a partition of $k$, in moments of degree $2k$ of $O(d)$.

    $$ \mathrm{Wg}_d(\mu) = \frac{2^k k!}{(2k)!} \sum_{\lambda \vdash k,\ \ell(\lambda) \le d}
       \frac{f^{2\lambda}}{Z_\lambda(1^d)}\, \omega^\lambda_\mu $$

    As a matrix over pairings it is the inverse of $d^{\text{loops}}$; when $d < k$ that matrix is singular
    and the restriction $\ell(\lambda) \le d$ makes it the pseudo-inverse, which is what moments need
    (Collins and Matsumoto, 2009).
    For $d \ge 2$, $\mathrm{Wg}_d(1,1) = \frac{d+1}{d(d+2)(d-1)}$ and $\mathrm{Wg}_d(2) = \frac{-1}{d(d+2)(d-1)}$.

    Args:
        partition: $\mu$, largest part first.
        dimension: Size $d$ of a matrix, or entries $m$ of a vector.
    """
    if dimension < 1:
        raise ValueError(f"the orthogonal group needs dimension 1 or more, got {dimension}")
    if min(partition, default=1) < 1 or list(partition) != sorted(partition, reverse=True):
        raise ValueError(f"a coset type is a partition, positive parts and largest first, got {partition}")
    degree = sum(partition)
    spherical = zonal_spherical_functions(degree)
    shapes = [shape for shape in partitions(degree) if len(shape) <= dimension]
    total = sum(
        Fraction(doubled_shape_dimension(shape), zonal_value_at_identity(shape, dimension))
        * spherical[shape][partition]
        for shape in shapes
    )
    return Fraction(2**degree * factorial(degree), factorial(2 * degree)) * total


@source("collins2006", "section 3, partitions of k", assumes=_ANY)
@cache
def partitions(total: int) -> tuple[Partition, ...]:
    """All partitions of a number, in lexicographic order from `(1, …, 1)` to `(total,)`."""
    if total < 0:
        raise ValueError(f"partitions are of a number from 0, got {total}")
    return tuple(sorted(_partitions(total, total)))


@source("collins2006", "zonal polynomial of the identity, Z_λ(1^d)", assumes="eigenvalue of the Gram of pairings")
def zonal_value_at_identity(partition: Partition, dimension: int) -> int:
    r"""$Z_\lambda(1^d) = \prod_{(i,j)\in\lambda} (d + 2(j-1) - (i-1))$: 0 exactly if there are more than $d$ parts."""
    return prod(dimension + 2 * j - i for i, part in enumerate(partition) for j in range(part))


@source("collins2006", "dimension of the irreducible representation of S_2k of shape 2λ", assumes=_ANY)
def doubled_shape_dimension(partition: Partition) -> int:
    r"""$f^{2\lambda} = (2k)!/\prod_{\text{cells}} \text{hook}$ for the shape with every row of $\lambda$ doubled."""
    shape = [2 * part for part in partition]
    below = [sum(part > column for part in shape) for column in range(shape[0] if shape else 0)]
    hooks = (part - j + below[j] - i - 1 for i, part in enumerate(shape) for j in range(part))
    return factorial(sum(shape)) // prod(hooks)


@source("collins2006", "zonal spherical functions, by James' recursion for zonal polynomials", assumes=_ANY)
@cache
def zonal_spherical_functions(degree: int) -> dict[Partition, dict[Partition, Fraction]]:
    r"""$\omega^\lambda_\mu$ for all partitions $\lambda, \mu$ of $k$, as `[λ][μ]`; $\omega^\lambda_{(1^k)} = 1$.

    Read off the zonal polynomials, with $z_\rho = \prod_i i^{m_i} m_i!$:

    $$ Z_\lambda = |H_k| \sum_\mu z_{2\mu}^{-1}\, \omega^\lambda_\mu\, p_\mu, \qquad |H_k| = 2^k k! $$
    """
    group = 2**degree * factorial(degree)
    functions = {}
    for shape in partitions(degree):
        coefficients = _in_power_sums(_in_monomials(shape))
        scale = coefficients[partitions(degree)[0]]  # Z_λ is normalized so that p_1^k has coefficient 1
        functions[shape] = {
            mu: coefficient / scale * _centralizer(tuple(2 * part for part in mu)) / group
            for mu, coefficient in coefficients.items()
        }
    return functions


def _partitions(total: int, largest: int) -> Iterator[Partition]:
    if total == 0:
        yield ()
    for part in range(1, min(total, largest) + 1):
        for rest in _partitions(total - part, part):
            yield (part, *rest)


def _in_monomials(shape: Partition) -> dict[Partition, Fraction]:
    r"""$Z_\lambda$ up to scale in monomial symmetric functions, from $m_\lambda$ down (James, 1968).

    $$ c_\mu = \sum_{i<j,\,t} \frac{(\mu_i+t)-(\mu_j-t)}{\rho_\lambda - \rho_\mu}\, c_{\mu + t e_i - t e_j},
       \qquad \rho_\mu = \sum_i \mu_i(\mu_i - i) $$
    """
    coefficients: dict[Partition, Fraction] = {}
    for mu in reversed(partitions(sum(shape))):
        if mu >= shape:
            coefficients[mu] = Fraction(mu == shape)
            continue
        total = Fraction(0)
        for i in range(len(mu)):
            for j in range(i + 1, len(mu)):
                for t in range(1, mu[j] + 1):
                    moved = [*mu[:i], mu[i] + t, *mu[i + 1 : j], mu[j] - t, *mu[j + 1 :]]
                    total += (moved[i] - moved[j]) * coefficients[tuple(sorted(filter(None, moved), reverse=True))]
        # Where shape does not dominate μ the sum is empty, and only there the denominator may vanish.
        coefficients[mu] = total / (_rho(shape) - _rho(mu)) if total else total
    return coefficients


def _rho(partition: Partition) -> int:
    return sum(part * (part - i) for i, part in enumerate(partition, start=1))


def _in_power_sums(monomials: dict[Partition, Fraction]) -> dict[Partition, Fraction]:
    """The same function in power sums, by forward substitution: p_μ has only m_λ with λ ≥ μ."""
    power_sums: dict[Partition, Fraction] = {}
    for shape in partitions(sum(next(iter(monomials)))):
        known = sum((value * _merges(mu, shape) for mu, value in power_sums.items()), Fraction(0))
        power_sums[shape] = (monomials[shape] - known) / _merges(shape, shape)
    return power_sums


@cache
def _merges(parts: Partition, target: Partition) -> int:
    """Coefficient of m_target in p_parts: in how many ways parts can be dealt out to fill the target."""
    if not parts:
        return int(not any(target))
    return sum(
        _merges(parts[1:], (*target[:i], room - parts[0], *target[i + 1 :]))
        for i, room in enumerate(target)
        if room >= parts[0]
    )


def _centralizer(partition: Partition) -> int:
    return prod(part ** partition.count(part) * factorial(partition.count(part)) for part in set(partition))


@source("collins2006", "section 3, pairings", assumes=_ANY)
def pairings_of(labels: Sequence[Hashable]) -> Iterator[Pairing]:
    r"""All pairings of the positions that join equal labels only.

    $$ \{ \mathfrak m \in \mathcal M_{2k} : \Delta_{\mathfrak m}(\ell) = 1 \}, \qquad
       \prod_{\text{labels}} (m-1)!! \text{ of them for multiplicities } m $$

    One empty pairing of no positions; none if some label occurs an odd number of times.
    """
    positions: dict[Hashable, list[int]] = {}
    for position, label in enumerate(labels):
        positions.setdefault(label, []).append(position)
    if any(len(group) % 2 for group in positions.values()):
        return
    for parts in product(*(list(_matchings(tuple(group))) for group in positions.values())):
        partner = [0] * len(labels)
        for first, second in (pair for part in parts for pair in part):
            partner[first], partner[second] = second, first
        yield tuple(partner)


@source("collins2006", "section 3, coset type of a pair of pairings", assumes=_ANY)
def coset_type(first: Pairing, second: Pairing) -> Partition:
    r"""Half-lengths of the loops that two pairings of one set make together, largest first: a partition of $k$.

    Two equal pairings make $k$ loops of half-length 1; what two pairings have to do with each other is
    their coset type and nothing else.
    """
    if len(first) != len(second):
        raise ValueError(f"pairings of {len(first)} and of {len(second)} positions make no loops together")
    seen = [False] * len(first)
    halves = []
    for start in range(len(first)):
        if seen[start]:
            continue
        half, position = 0, start
        while not seen[position]:
            across = first[position]
            seen[position] = seen[across] = True
            position = second[across]
            half += 1
        halves.append(half)
    return tuple(sorted(halves, reverse=True))


@source("collins2006", "section 3, orbits of pairings under equal factors", assumes=_ANY)
def pairing_orbits(pairings: Sequence[Pairing], labels: Sequence[Hashable]) -> list[tuple[Pairing, int]]:
    r"""One pairing of each orbit under permutations of equally labeled positions, with the size of the orbit.

    Two pairings are in one orbit exactly if they join the same labels equally often.
    """
    representative: dict[Hashable, Pairing] = {}
    sizes: Counter[Hashable] = Counter()
    numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    codes = [numbers[label] for label in labels]
    for pairing in pairings:
        pairs = ((codes[a], codes[b]) for a, b in enumerate(pairing) if a < b)
        joined = tuple(sorted((min(pair), max(pair)) for pair in pairs))
        representative.setdefault(joined, pairing)
        sizes[joined] += 1
    return [(pairing, sizes[joined]) for joined, pairing in representative.items()]


def _matchings(positions: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """All ways to split positions into pairs; the first one has every other as its partner in turn."""
    if not positions:
        yield ()
        return
    first, rest = positions[0], positions[1:]
    for index, partner in enumerate(rest):
        for others in _matchings(rest[:index] + rest[index + 1 :]):
            yield ((first, partner), *others)
