"""What an update does, as it is read: loops, mpmath and angles by arcs instead of the library's algorithms."""

import math

import mpmath
import torch
from torch import Tensor

from references.slow_twins import dot, pairs, parameter_independence, rows_of, singular_values


def entries(matrix: Tensor) -> list[float]:
    return [value for row in rows_of(matrix) for value in row]


def norm(matrix: Tensor) -> float:
    return math.sqrt(dot(entries(matrix), entries(matrix)))


def relative_size(update: Tensor, weight: Tensor) -> float:
    return norm(update) / norm(weight)


def relative_spectral_size(update: Tensor, weight: Tensor) -> float:
    return singular_values(update)[0] / singular_values(weight)[0]


def update_alignment(update: Tensor, weight: Tensor) -> float:
    return dot(entries(update), entries(weight)) / (norm(update) * norm(weight))


def semi_orthogonality_defect(update: Tensor) -> float:
    """By the nearest matrix itself, written out, and the best multiple of it by least squares."""
    with mpmath.workdps(30):
        left, _, right = mpmath.svd_r(mpmath.matrix(rows_of(update)))
        polar = torch.tensor((left * right).tolist(), dtype=torch.float64)
    factor = dot(entries(update), entries(polar)) / dot(entries(polar), entries(polar))
    return norm(update.double() - factor * polar) / norm(update)


def subspace_share(update: Tensor, weight: Tensor, rank: int, side: str) -> float:
    """Energy of the projection by singular vectors of mpmath, one after another."""
    with mpmath.workdps(30):
        left, _, right = mpmath.svd_r(mpmath.matrix(rows_of(weight)))
    lefts = [[float(left[i, k]) for i in range(left.rows)] for k in range(rank)]
    rights = [[float(right[k, j]) for j in range(right.cols)] for k in range(rank)]
    rows, columns = rows_of(update), rows_of(update.mT)
    if side == "left":
        energy = math.fsum(dot(vector, column) ** 2 for vector in lefts for column in columns)
    elif side == "right":
        energy = math.fsum(dot(vector, row) ** 2 for vector in rights for row in rows)
    else:
        images = [[dot(vector, row) for row in rows] for vector in rights]
        energy = math.fsum(dot(vector, image) ** 2 for vector in lefts for image in images)
    return energy / norm(update) ** 2


def independence_change(before: Tensor, after: Tensor) -> float:
    return parameter_independence(after) - parameter_independence(before)


def angle(left: list[float], right: list[float]) -> float:
    """Kahan's: twice the arc tangent of the diagonals of the rhombus of unit vectors, right for every angle."""
    one, other = math.sqrt(dot(left, left)), math.sqrt(dot(right, right))
    apart = [a / one - b / other for a, b in zip(left, right, strict=True)]
    along = [a / one + b / other for a, b in zip(left, right, strict=True)]
    return 2 * math.atan2(math.sqrt(dot(apart, apart)), math.sqrt(dot(along, along)))


def angle_change(before: Tensor, after: Tensor) -> float:
    old, new = pairs(rows_of(before)), pairs(rows_of(after))
    changes = [abs(angle(*two) - angle(*one)) for one, two in zip(old, new, strict=True)]
    return math.fsum(changes) / len(changes)


def conformality_defect(before: Tensor, after: Tensor) -> float:
    return angle_change(before, after) * norm(before) / norm(after.double() - before.double())


def translation_defect(update: Tensor) -> float:
    rows = rows_of(update)
    distances = [math.dist(one, other) for one, other in pairs(rows)]
    mean_square = math.fsum(dot(row, row) for row in rows) / len(rows)
    return math.fsum(distances) / len(distances) / math.sqrt(mean_square)
