"""The exact polar factor beside the singular value decomposition: time, and distance from a more precise result."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch
from torch import Tensor

from orthoscope.linalg import haar, polar_factor
from timing import alternating, product_seconds

CONDITIONS = {torch.float32: 1e4, torch.float64: 1e8}
SIZES = (256, 1024)
# A product in extended precision takes most of a second at 256 and most of a minute at 1024.
LARGEST_EXTENDED = 256


@dataclass(frozen=True)
class Row:
    """One method on one square matrix whose singular values fall geometrically."""

    size: int
    dtype: str
    condition: float
    method: str
    milliseconds: float
    products: float  # in one product of the same size in float32
    error: float | None  # |Q - UVᵀ| / |UVᵀ|, Frobenius; None where nothing more precise can be had in time
    calls: int


def matrix(size: int, dtype: torch.dtype, condition: float) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    left, right = (haar(size, size, generator=generator, dtype=torch.float64) for _ in range(2))
    values = torch.logspace(0, -float(numpy.log10(condition)), size, dtype=torch.float64)
    return ((left * values) @ right.mT).to(dtype)


def svd_polar(given: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(given)
    return left @ right


def reference(given: Tensor) -> numpy.ndarray | None:
    """UVᵀ beyond the precision of `given`: in float64, or by one correction in extended precision.

    For an orthogonal Q near UVᵀ, H = QᵀM is nearly symmetric; Q(I + W) with the skew W that solves WH + HW = H - Hᵀ is
    closer by a square (1e-14 at condition 1e8). H alone has to be precise, W is small.
    """
    if given.dtype == torch.float32:
        return svd_polar(given.double()).numpy()
    if len(given) > LARGEST_EXTENDED or numpy.finfo(numpy.longdouble).eps > 1e-18:
        return None
    wide = given.numpy().astype(numpy.longdouble)
    factor = svd_polar(given).numpy().astype(numpy.longdouble)
    # First to an orthogonal matrix, which is as near as extended precision has it.
    factor = factor @ (3 * numpy.eye(len(factor)) - factor.T @ factor) / 2
    stretch = factor.T @ wide
    values, vectors = numpy.linalg.eigh(((stretch + stretch.T) / 2).astype(numpy.float64))
    turned = vectors.T @ (stretch - stretch.T).astype(numpy.float64) @ vectors
    skew = vectors @ (turned / (values[:, None] + values[None, :])) @ vectors.T
    return factor + factor @ skew.astype(numpy.longdouble)


def table() -> list[Row]:
    return [row for size in SIZES for dtype in CONDITIONS for row in _measured(size, dtype)]


def _measured(size: int, dtype: torch.dtype) -> list[Row]:
    given = matrix(size, dtype, CONDITIONS[dtype])
    candidates: dict[str, Callable[[], Tensor]] = {
        "orthoscope polar_factor": lambda: polar_factor(given),
        "torch SVD": lambda: svd_polar(given),
    }
    if dtype == torch.float32:
        # The decomposition that reaches the same error.
        candidates["torch SVD in float64"] = lambda: svd_polar(given.double()).float()
    costs = alternating(candidates, rounds=7, patience=4.0)
    exact, unit = reference(given), product_seconds(size, size, size)
    return [
        Row(
            size=size,
            dtype=str(dtype).removeprefix("torch."),
            condition=CONDITIONS[dtype],
            method=method,
            milliseconds=costs[method].seconds * 1e3,
            products=costs[method].seconds / unit,
            error=None
            if exact is None
            else float(numpy.linalg.norm((call().numpy() - exact).astype(float)) / size**0.5),
            calls=costs[method].calls,
        )
        for method, call in candidates.items()
    ]
