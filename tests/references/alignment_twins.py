"""The scores of residual alignment as they are read: loops and mpmath instead of the library's algorithms."""

import math
from itertools import pairwise

import mpmath
import torch
from torch import Tensor

from references.slow_twins import cosine, dot, rows_of


def steps(path: Tensor) -> list[list[float]]:
    rows = rows_of(path)
    return [[b - a for a, b in zip(one, two, strict=True)] for one, two in pairwise(rows)]


def line_shape(path: Tensor) -> float:
    total = [0.0] * path.shape[-1]
    for step in steps(path):
        length = math.sqrt(dot(step, step))
        total = [t + s / length for t, s in zip(total, step, strict=True)]
    return len(steps(path)) / math.sqrt(dot(total, total))


def step_cosine(path: Tensor) -> float:
    found = steps(path)
    return math.fsum(cosine(a, b) for a, b in pairwise(found)) / (len(found) - 1)


def spacing_variation(path: Tensor) -> float:
    lengths = [math.sqrt(dot(step, step)) for step in steps(path)]
    mean = math.fsum(lengths) / len(lengths)
    return math.sqrt(math.fsum((length - mean) ** 2 for length in lengths) / len(lengths)) / mean


def depth_law(leading: list[float]) -> tuple[float, float, float, float]:
    """Slope, intercept, R² and exponent by the normal equations, with 40 digits."""
    with mpmath.workdps(40):
        depth = [mpmath.mpf(i + 1) for i in range(len(leading))]
        inverse = [1 / mpmath.mpf(value) for value in leading]
        slope, intercept = _fit(depth, inverse)
        mean = sum(inverse) / len(inverse)
        left = sum((y - slope * x - intercept) ** 2 for x, y in zip(depth, inverse, strict=True))
        whole = sum((y - mean) ** 2 for y in inverse)
        exponent, _ = _fit([mpmath.log(x) for x in depth], [mpmath.log(mpmath.mpf(value)) for value in leading])
        return float(slope), float(intercept), float(1 - left / whole), float(exponent)


def _fit(x: list[mpmath.mpf], y: list[mpmath.mpf]) -> tuple[mpmath.mpf, mpmath.mpf]:
    ones = mpmath.matrix([[value, 1] for value in x])
    solution = mpmath.lu_solve(ones.T * ones, ones.T * mpmath.matrix(y))
    return solution[0], solution[1]


def misalignment(one: Tensor, other: Tensor, count: int) -> float:
    """Of one matrix with the singular vectors of another, entry by entry."""
    left, _, right = torch.linalg.svd(other)
    values = torch.linalg.svdvals(one)[:count].tolist()
    squares = 0.0
    for p in range(count):
        for q in range(count):
            entry = abs(float(left[:, p] @ one @ right[q]))
            squares += (entry - (values[p] if p == q else 0.0)) ** 2
    return math.sqrt(squares) / math.sqrt(math.fsum(value**2 for value in values))
