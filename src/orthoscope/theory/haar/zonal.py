r"""Zonal spherical functions of the pair $(S_{2k}, H_k)$, exactly: the characters behind moments of $O(d)$."""

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from math import factorial, prod

from orthoscope.theory.haar.pairings import Partition
from orthoscope.theory.sources import source

_ANY = "nothing: combinatorics"


@source("collins2006", "section 3, partitions of k", assumes=_ANY)
def partitions(total: int) -> tuple[Partition, ...]:
    """All partitions of a number, in lexicographic order from `(1, …, 1)` to `(total,)`."""
    if total < 0:
        raise ValueError(f"partitions are of a number from 0, got {total}")
    return _sorted_partitions(total)


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
def zonal_spherical_functions(degree: int) -> dict[Partition, dict[Partition, Fraction]]:
    r"""$\omega^\lambda_\mu$ for all partitions $\lambda, \mu$ of $k$, as `[λ][μ]`; $\omega^\lambda_{(1^k)} = 1$.

    Read off the zonal polynomials, with $z_\rho = \prod_i i^{m_i} m_i!$:

    $$ Z_\lambda = |H_k| \sum_\mu z_{2\mu}^{-1}\, \omega^\lambda_\mu\, p_\mu, \qquad |H_k| = 2^k k! $$
    """
    return _spherical_functions(degree)


@cache
def _spherical_functions(degree: int) -> dict[Partition, dict[Partition, Fraction]]:
    group = 2**degree * factorial(degree)
    functions = {}
    for shape in partitions(degree):
        coefficients = _in_power_sums(_in_monomials(shape))
        scale = coefficients[partitions(degree)[0]]  # Z_λ is normalised so that p_1^k has coefficient 1
        functions[shape] = {
            mu: coefficient / scale * _centraliser(tuple(2 * part for part in mu)) / group
            for mu, coefficient in coefficients.items()
        }
    return functions


@cache
def _sorted_partitions(total: int) -> tuple[Partition, ...]:
    return tuple(sorted(_partitions(total, total)))


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


def _centraliser(partition: Partition) -> int:
    return prod(part ** partition.count(part) * factorial(partition.count(part)) for part in set(partition))
