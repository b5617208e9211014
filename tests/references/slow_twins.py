"""The definitions, written as they are read: loops and mpmath instead of the library's algorithms."""

import itertools
import math
import statistics

import mpmath
import torch
from torch import Tensor


def rows_of(hidden: Tensor) -> list[list[float]]:
    return hidden.double().tolist()


def dot(left: list[float], right: list[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def cosine(left: list[float], right: list[float]) -> float:
    return dot(left, right) / math.sqrt(dot(left, left) * dot(right, right))


def pairs(rows: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    return list(itertools.combinations(rows, 2))


def centered(hidden: Tensor) -> Tensor:
    return hidden.double() - hidden.double().mean(0)


def orthogonality_gap(hidden: Tensor) -> float:
    rows = rows_of(hidden)
    energy = math.fsum(dot(row, row) for row in rows)
    count = len(rows)
    squares = 0.0
    for i, left in enumerate(rows):
        for j, right in enumerate(rows):
            squares += (dot(left, right) / energy - (i == j) / count) ** 2
    return math.sqrt(squares)


def isometry_gap(hidden: Tensor, digits: int = 80) -> float:
    """log of the mean eigenvalue minus mean log eigenvalue of the Gram matrix, with `digits` digits throughout."""
    with mpmath.workdps(digits):
        matrix = mpmath.matrix(rows_of(hidden))
        gram = matrix * matrix.T
        count = gram.rows
        trace = mpmath.fsum(gram[i, i] for i in range(count))
        return float(mpmath.log(trace / count) - mpmath.log(mpmath.det(gram)) / count)


def mean_overlap(hidden: Tensor) -> float:
    values = [cosine(left, right) for left, right in pairs(rows_of(hidden))]
    return math.fsum(values) / len(values)


def overlap_potential(hidden: Tensor) -> float:
    return max(abs(c) / (1 - abs(c)) for c in (cosine(*pair) for pair in pairs(rows_of(hidden))))


def mean_energy(hidden: Tensor) -> float:
    rows = rows_of(hidden)
    mean = [math.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
    return len(rows) * dot(mean, mean) / math.fsum(dot(row, row) for row in rows)


def length_spread(hidden: Tensor) -> float:
    lengths = [math.sqrt(dot(row, row)) for row in rows_of(hidden)]
    return statistics.pstdev(lengths) / statistics.fmean(lengths)


def singular_values(matrix: Tensor, digits: int = 40) -> list[float]:
    with mpmath.workdps(digits):
        values = mpmath.svd_r(mpmath.matrix(rows_of(matrix)), compute_uv=False)
        return sorted((float(value) for value in values), reverse=True)


def effective_rank(hidden: Tensor) -> float:
    values = singular_values(hidden)
    total = math.fsum(values)
    return math.exp(-math.fsum(v / total * math.log(v / total) for v in values if v > 0))


def stable_rank(hidden: Tensor) -> float:
    values = singular_values(hidden)
    return math.fsum(v * v for v in values) / values[0] ** 2


def numerical_rank(hidden: Tensor) -> int:
    """What the papers ran: torch's own rank of the Gram matrix, formed in the tensor's own precision."""
    return int(torch.linalg.matrix_rank(hidden @ hidden.mT))


def parameter_independence(weight: Tensor) -> float:
    values = [abs(cosine(left, right)) for left, right in pairs(rows_of(weight))]
    return math.fsum(values) / len(values)


def diagonal_dominance(weight: Tensor) -> float:
    rows = rows_of(weight)
    return min(
        (dot(row, row) - sum(abs(dot(row, other)) for other in rows if other is not row)) / dot(row, row)
        for row in rows
    )


def soft_orthogonality(weight: Tensor) -> float:
    columns = rows_of(weight.mT)
    deviation = 0.0
    for i, left in enumerate(columns):
        for j, right in enumerate(columns):
            deviation += ((i == j) - dot(left, right)) ** 2
    return math.sqrt(deviation)


def double_sided_orthogonality(weight: Tensor) -> float:
    return soft_orthogonality(weight) + soft_orthogonality(weight.mT)


def spectral_deviation(weight: Tensor) -> float:
    return max(abs(value**2 - 1) for value in singular_values(weight))


def mutual_coherence(weight: Tensor) -> float:
    return max((abs(cosine(left, right)) for left, right in pairs(rows_of(weight))), default=0.0)


def log_norm(gradient: Tensor) -> float:
    with mpmath.workdps(60):
        squares = [mpmath.mpf(value) ** 2 for row in rows_of(gradient) for value in row]
        return float(mpmath.log(mpmath.fsum(squares)) / 2)
