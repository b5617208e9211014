"""What users may get wrong about frames of rotations."""

from torch import Tensor


def check_real(tensor: Tensor, name: str) -> None:
    if not tensor.is_floating_point():
        raise TypeError(
            f"rotations take real floating-point {name}, got {tensor.dtype}: "
            "complex weights have the Cayley map and the exponential"
        )


def checked_pivots(rows: int, columns: int, pivots: int | None) -> int:
    """`pivots`, or as many as make a difference, min(columns, rows - 1)."""
    if not 1 <= columns <= rows:
        raise ValueError(f"a frame has at least one column and no fewer rows, got {rows} x {columns}: transpose it")
    most = min(columns, rows - 1)
    if pivots is not None and not 0 <= pivots <= most:
        raise ValueError(f"a {rows} x {columns} frame has 0 to {most} pivots, got {pivots}")
    return most if pivots is None else pivots
