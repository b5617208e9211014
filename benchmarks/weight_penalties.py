"""What an orthogonality penalty and its gradient cost on one convolution kernel: ours and as published, in turns.

SRIP is timed where both forms mean the same: a kernel whose largest singular value decides (for a wide matrix the
published form is at least 1 otherwise), two power steps from the direction that an earlier step has found.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

import published_penalties as published
from orthoscope.layers import penalties
from timing import alternating, product_seconds

KERNELS = [(512, 512, 3, 3), (256, 256, 3, 3), (1024, 1024, 1, 1)]
CONVERGED = 500  # power steps: the first singular value of the kernel below is well apart


@dataclass(frozen=True)
class Row:
    """One penalty on one kernel, value and gradient, float32."""

    kernel: str
    method: str
    milliseconds: float
    products: float  # in products W Wᵀ of the kernel's matrix
    peak_mebibytes: float | None
    error: float | None  # of value and gradient, the larger relative one, against the published form in float64
    calls: int


def kernel_matrix(shape: tuple[int, ...]) -> Tensor:
    """Gaussian with He's variance, and one singular value made twice as large as the others."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(shape, generator=generator).flatten(1)
    matrix *= (2 / matrix.shape[1]) ** 0.5
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    matrix += values[0] * torch.outer(left[:, 0], right[0])
    return matrix


def pairs(matrix: Tensor) -> dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]]:
    """By name: our penalty and the published one."""
    short = torch.ones(matrix.shape[0], dtype=matrix.dtype)
    for _ in range(CONVERGED):
        short = torch.nn.functional.normalize(matrix @ (matrix.mT @ short) - short, dim=0)
    long = torch.nn.functional.normalize(matrix.mT @ short, dim=0)
    return {
        "SO": (penalties.soft_orthogonality, published.soft),
        "DSO": (penalties.double_sided_orthogonality, published.double_sided),
        "SRIP": (partial(penalties.srip, steps=2, start=short), partial(published.srip, steps=2, start=long)),
    }


def value_and_gradient(penalty: Callable[[Tensor], Tensor], matrix: Tensor) -> tuple[Tensor, Tensor]:
    weight = matrix.detach().requires_grad_()
    value = penalty(weight)
    return value.detach(), torch.autograd.grad(value, weight)[0]


def table() -> list[Row]:
    """Every penalty on every kernel."""
    return [row for shape in KERNELS for row in _measured(shape)]


def _measured(shape: tuple[int, ...]) -> list[Row]:
    matrix = kernel_matrix(shape)
    methods: dict[str, Callable[[Tensor], Tensor]] = {}
    truths: dict[str, tuple[Tensor, Tensor]] = {}
    exact = {name: value_and_gradient(theirs, matrix.double()) for name, (_, theirs) in pairs(matrix.double()).items()}
    for name, (ours, theirs) in pairs(matrix).items():
        methods |= {f"orthoscope {name}": ours, f"published {name}": theirs}
        truths |= {f"orthoscope {name}": exact[name], f"published {name}": exact[name]}
    calls = {name: partial(value_and_gradient, penalty, matrix) for name, penalty in methods.items()}
    costs = alternating(calls, rounds=9, patience=5.0)
    unit = product_seconds(matrix.shape[0], matrix.shape[1], matrix.shape[0])
    return [
        Row(
            kernel="x".join(str(size) for size in shape),
            method=name,
            milliseconds=cost.seconds * 1e3,
            products=cost.seconds / unit,
            peak_mebibytes=None if cost.peak_bytes is None else cost.peak_bytes / 2**20,
            error=max(_relative(*found) for found in zip(calls[name](), truths[name], strict=True)),
            calls=cost.calls,
        )
        for name, cost in costs.items()
    ]


def _relative(found: Tensor, truth: Tensor) -> float:
    return float(torch.linalg.vector_norm(found.double() - truth) / torch.linalg.vector_norm(truth))
