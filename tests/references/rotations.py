"""Products of plane rotations, one at a time, and elimination, one entry at a time: lists of Python floats."""

import math

import torch
from torch import Tensor

Matrix = list[list[float]]


def pairs(rows: int, pivots: int) -> list[tuple[int, int]]:
    """Column by column, the entries below the diagonal that elimination clears, as (pivot, row)."""
    order = []
    for column in range(pivots):
        order.extend((column, row) for row in range(rows) if row > column)
    return order


def turn(matrix: Matrix, pivot: int, other: int, angle: float) -> None:
    """Rows `pivot` and `other` turned by `angle`, in place."""
    cosine, sine = math.cos(angle), math.sin(angle)
    for column in range(len(matrix[0])):
        upper, lower = matrix[pivot][column], matrix[other][column]
        matrix[pivot][column] = cosine * upper - sine * lower
        matrix[other][column] = sine * upper + cosine * lower


def frame(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
    """The first columns of the product; its last factor meets the identity first."""
    matrix = [[float(row == column) for column in range(columns)] for row in range(rows)]
    for (pivot, other), angle in reversed(list(zip(pairs(rows, pivots), angles.tolist(), strict=True))):
        turn(matrix, pivot, other, angle)
    return torch.tensor(matrix, dtype=torch.float64)


def angles_of(frame: Tensor, pivots: int) -> list[float]:
    """The angles that clear the frame, each computed from the entries as they are at its turn."""
    matrix = frame.tolist()
    angles = []
    for pivot, other in pairs(len(matrix), pivots):
        angle = math.atan2(matrix[other][pivot], matrix[pivot][pivot])
        turn(matrix, pivot, other, -angle)
        matrix[other][pivot] = 0.0
        angles.append(angle)
    return angles


def differentiable_frame(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
    """The same product of whole matrices, for automatic differentiation."""
    product = torch.eye(rows, columns, dtype=angles.dtype)
    for (pivot, other), angle in reversed(list(zip(pairs(rows, pivots), angles, strict=True))):
        plane = torch.zeros(rows, rows, dtype=angles.dtype)
        plane[pivot, other], plane[other, pivot] = -1, 1
        fixed = torch.eye(rows, dtype=angles.dtype) + plane @ plane
        product = (fixed - angle.cos() * (plane @ plane) + angle.sin() * plane) @ product
    return product
