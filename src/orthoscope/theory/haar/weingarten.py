r"""The Weingarten function of the orthogonal group, exactly and in every dimension."""

from fractions import Fraction
from functools import cache
from math import factorial

from orthoscope.theory.haar.pairings import Partition
from orthoscope.theory.haar.zonal import (
    doubled_shape_dimension,
    partitions,
    zonal_spherical_functions,
    zonal_value_at_identity,
)
from orthoscope.theory.sources import source


@source("collins2006", "section 3, orthogonal Weingarten function", assumes="W uniform over O(d) (Haar), any d from 1")
def weingarten(partition: Partition, dimension: int) -> Fraction:
    r"""Weight of two pairings with coset type $\mu$, a partition of $k$, in moments of degree $2k$ of $O(d)$.

    $$ \mathrm{Wg}_d(\mu) = \frac{2^k k!}{(2k)!} \sum_{\lambda \vdash k,\ \ell(\lambda) \le d}
       \frac{f^{2\lambda}}{Z_\lambda(1^d)}\, \omega^\lambda_\mu $$

    As a matrix over pairings it is the inverse of $d^{\text{loops}}$; when $d < k$ that matrix is singular
    and the restriction $\ell(\lambda) \le d$ makes it the pseudo-inverse, which is what moments need
    (Collins and Matsumoto, 2009).
    For $d \ge 2$, $\mathrm{Wg}_d(1,1) = \frac{d+1}{d(d+2)(d-1)}$ and $\mathrm{Wg}_d(2) = \frac{-1}{d(d+2)(d-1)}$.
    """
    if dimension < 1:
        raise ValueError(f"the orthogonal group needs dimension 1 or more, got {dimension}")
    if min(partition, default=1) < 1 or list(partition) != sorted(partition, reverse=True):
        raise ValueError(f"a coset type is a partition, positive parts and largest first, got {partition}")
    return _weingarten(partition, dimension)


@cache
def _weingarten(partition: Partition, dimension: int) -> Fraction:
    degree = sum(partition)
    spherical = zonal_spherical_functions(degree)
    shapes = [shape for shape in partitions(degree) if len(shape) <= dimension]
    total = sum(
        Fraction(doubled_shape_dimension(shape), zonal_value_at_identity(shape, dimension))
        * spherical[shape][partition]
        for shape in shapes
    )
    return Fraction(2**degree * factorial(degree), factorial(2 * degree)) * total
