"""How close each way to orthogonalize comes to UVᵀ, and what it costs, on spectra from benign to hopeless."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.optim._muon import _zeropower_via_newtonschulz

from gradient_steps import QUINTIC
from orthoscope.linalg import haar, orthogonalize
from orthoscope.linalg.orthogonalize import METHODS
from timing import alternating, product_seconds

SHAPES = [(512, 512), (1024, 1024), (2048, 512)]
SEED = 0


@dataclass(frozen=True)
class Row:
    """One method on one float32 matrix, relative to the directions in which the matrix is not zero."""

    rows: int
    columns: int
    spectrum: str
    method: str
    milliseconds: float
    products: float  # in one product (columns x rows)(rows x columns)
    error: float  # |(X - UVᵀ)V| / |V| in the Frobenius norm, V the right singular vectors of nonzero singular values
    lowest: float  # of the singular values of XV
    highest: float
    calls: int


def spectra(size: int) -> dict[str, Tensor | None]:
    """Singular values by name; None is a matrix of independent Gaussian entries."""
    numbers = torch.arange(1, size + 1, dtype=torch.float64)
    half = torch.ones(size, dtype=torch.float64)
    half[size // 2 :] = 0
    return {
        "Gaussian": None,
        "i^-1": 1 / numbers,
        "i^-2": 1 / numbers**2,
        "condition 1e3": torch.logspace(0, -3, size, dtype=torch.float64),
        "half rank": half,
    }


def matrix(rows: int, columns: int, singular_values: Tensor | None) -> Tensor:
    generator = torch.Generator().manual_seed(SEED)
    if singular_values is None:
        return torch.randn(rows, columns, generator=generator)
    left = haar(rows, columns, generator=generator, dtype=torch.float64)
    right = haar(columns, columns, generator=generator, dtype=torch.float64)
    return ((left * singular_values) @ right.mT).float()


def methods(given: Tensor) -> dict[str, Callable[[], Tensor]]:
    found: dict[str, Callable[[], Tensor]] = {
        f"orthoscope {name}": lambda name=name: orthogonalize(given, name) for name in ("auto", *METHODS)
    }
    found["torch SVD"] = lambda: _by_svd(given)
    if given.shape == SHAPES[0]:  # bfloat16: takes minutes on larger ones where the processor has no such products
        found["torch Muon's quintic, bfloat16"] = lambda: _zeropower_via_newtonschulz(given, QUINTIC, 5, 1e-7)
    return found


def _by_svd(given: Tensor) -> Tensor:
    left, _, right = torch.linalg.svd(given, full_matrices=False)
    return left @ right


def table() -> list[Row]:
    """Every method on every shape and spectrum."""
    return [
        row
        for rows, columns in SHAPES
        for spectrum, values in spectra(columns).items()
        for row in _measured(
            spectrum, matrix(rows, columns, values), int((values > 0).sum()) if values is not None else columns
        )
    ]


def _measured(spectrum: str, given: Tensor, rank: int) -> list[Row]:
    rows, columns = given.shape
    calls = methods(given)
    costs = alternating(calls, rounds=3, patience=2.0)
    unit = product_seconds(columns, rows, columns)
    left, _, right = torch.linalg.svd(given.double(), full_matrices=False)
    exact, seen = left[:, :rank], right[:rank].mT
    found = []
    for method, call in calls.items():
        image = call().double() @ seen
        values = torch.linalg.svdvals(image)
        found.append(
            Row(
                rows=rows,
                columns=columns,
                spectrum=spectrum,
                method=method,
                milliseconds=costs[method].seconds * 1e3,
                products=costs[method].seconds / unit,
                error=float((image - exact).norm() / rank**0.5),
                lowest=float(values.min()),
                highest=float(values.max()),
                calls=costs[method].calls,
            )
        )
    return found
