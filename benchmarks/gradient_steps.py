"""What one step of Muon costs, all matrices included: ours and the peers', in turns."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import muon
import pytorch_optimizer
import torch
from torch import Tensor, nn

from gradients_page import FLOOR, MIXED, SMALL
from orthoscope.linalg import polar_factor
from orthoscope.optim import Muon
from timing import alternating, product_seconds

# Number of matrices, rows, columns.
Sizes = list[tuple[int, int, int]]
SETS: dict[str, Sizes] = {
    MIXED: [(12, 512, 512), (4, 2048, 512), (2, 1024, 1024)],
    SMALL: [(200, 32, 32)],
    "100 of 128x128": [(100, 128, 128)],
}
Make = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
QUINTIC = (3.4445, -4.7750, 2.0315)
MOMENTUM = 0.95
RATE = 0.01
# Where a product in bfloat16 takes more than so many in float32, only torch's own loop of them is waited for.
SLOW = 10


@dataclass(frozen=True)
class Row:
    """One optimizer on one set of matrices, float32 parameters."""

    matrices: str
    method: str
    milliseconds: float
    products: float  # in one product (columns x rows)(rows x columns) for every matrix
    peak_mebibytes: float | None
    error: float | None  # |D - UVᵀ| / |UVᵀ| of the direction D that the first matrix moves in, Frobenius
    calls: int


class QuinticInFloat32(torch.optim.Optimizer):
    """Muon as torch's, matrix by matrix, but with products in float32."""

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                momentum = state["momentum"].lerp_(parameter.grad, 1 - MOMENTUM)
                direction = quintic(parameter.grad.lerp(momentum, MOMENTUM))
                rows, columns = parameter.shape
                parameter.add_(direction, alpha=-group["lr"] * max(1, rows / columns) ** 0.5)


class TwoProducts(torch.optim.Optimizer):
    """A lower bound for every method: momentum, the smaller Gram matrix, one product with it, a move; in float32.

    The direction is of no use.
    """

    def __init__(self, params: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self) -> None:
        (group,) = self.param_groups
        weights = group["params"]
        gradients = [parameter.grad for parameter in weights]
        momenta = [self.state[parameter].setdefault("momentum", torch.zeros_like(parameter)) for parameter in weights]
        torch._foreach_lerp_(momenta, gradients, 1 - MOMENTUM)
        updates = torch._foreach_lerp(gradients, momenta, MOMENTUM)
        directions = [update @ (update.mT @ update) for update in updates]
        torch._foreach_add_(weights, directions, alpha=-group["lr"])


def quintic(matrix: Tensor, steps: int = 5) -> Tensor:
    """Jordan's iteration X ← aX + (bS + cS²)X, S = XXᵀ, from X of norm 1, in the matrix's own type."""
    a, b, c = QUINTIC
    tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.mT if tall else matrix
    found = found / found.norm()
    for _ in range(steps):
        gram = found @ found.mT
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=b, alpha=c), found, beta=a)
    return found.mT if tall else found


def parameters(sizes: Sizes) -> list[nn.Parameter]:
    """Zeros with Gaussian gradients, the same for every optimizer."""
    generator = torch.Generator().manual_seed(0)
    found = [nn.Parameter(torch.zeros(rows, columns)) for count, rows, columns in sizes for _ in range(count)]
    for parameter in found:
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return found


@cache
def bfloat16_products() -> float:
    """Time of a product in bfloat16 over that in float32: about 1 where the processor has such products, else large."""
    return product_seconds(512, 512, 512, torch.bfloat16) / product_seconds(512, 512, 512)


def optimizers(sizes: Sizes) -> dict[str, Make]:
    """By name, without weight decay."""
    found: dict[str, Make] = {
        "orthoscope Muon": lambda own: Muon(own, lr=RATE),
        "orthoscope Muon, keller": lambda own: Muon(own, lr=RATE, method="keller"),
        "the quintic loop in float32": lambda own: QuinticInFloat32(own, lr=RATE),
        "torch Muon": lambda own: torch.optim.Muon(own, lr=RATE, weight_decay=0.0),
        "torch AdamW": lambda own: torch.optim.AdamW(own, lr=RATE, weight_decay=0.0),
    }
    if bfloat16_products() < SLOW or max(columns for _, _, columns in sizes) <= 128:
        found["muon-optimizer"] = lambda own: muon.SingleDeviceMuon(own, lr=RATE)
        found["pytorch-optimizer"] = lambda own: pytorch_optimizer.Muon([{"params": own, "use_muon": True}], lr=RATE)
    if len(sizes) > 1:
        found[FLOOR] = lambda own: TwoProducts(own, lr=RATE)
    return found


def table() -> list[Row]:
    """Every optimizer on every set."""
    return [row for name, sizes in SETS.items() for row in _measured(name, optimizers(sizes))]


def _measured(name: str, candidates: Mapping[str, Make]) -> list[Row]:
    sizes = SETS[name]
    own = {method: parameters(sizes) for method in candidates}
    steps = {method: _from_zero(make(own[method]), own[method][0]) for method, make in candidates.items()}
    costs = alternating(steps, rounds=11, patience=6.0)
    unit = sum(count * product_seconds(columns, rows, columns) for count, rows, columns in sizes)
    return [
        Row(
            matrices=name,
            method=method,
            milliseconds=cost.seconds * 1e3,
            products=cost.seconds / unit,
            peak_mebibytes=None if cost.peak_bytes is None else cost.peak_bytes / 2**20,
            error=None if method in ("torch AdamW", FLOOR) else _error(own[method][0]),
            calls=cost.calls,
        )
        for method, cost in costs.items()
    ]


def _from_zero(optimizer: torch.optim.Optimizer, first: nn.Parameter) -> Callable[[], None]:
    """A step after which the first matrix is what it moved by; setting it to zero costs next to nothing."""

    def step() -> None:
        first.detach().zero_()
        optimizer.step()

    return step


def _error(moved: nn.Parameter) -> float:
    """The gradient never changes, so the momentum is parallel to it. The first matrix of a set is square: no scale."""
    assert moved.grad is not None
    exact = polar_factor(moved.grad.double())
    return float((-moved.detach().double() / RATE - exact).norm() / exact.norm())
