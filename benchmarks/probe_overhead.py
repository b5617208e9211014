"""What a diagnosis costs: alternating with a plain forward and backward pass in one process, medians, as ratios.

Beside milliseconds, costs are given in matrix products of 1024 x 1024 in float32, which travel better
between machines. Run it on a quiet machine: `make benchmark`.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from orthoscope import diagnose
from orthoscope.models import MLP, resolve
from timing import alternating, product_seconds

ROUNDS = 15
LIMITS = {"ResNet-18, 3 x 64 x 64, batch 16": 2.0, "MLP 50 x 100, batch 100": 12.0}


def plain_pass(model: nn.Module, inputs: Tensor) -> Callable[[], None]:
    def run() -> None:
        model.zero_grad(set_to_none=True)
        model(inputs).sum().backward()

    return run


def report(name: str, model: nn.Module, inputs: Tensor, unit: float) -> None:
    costs = alternating(
        {"plain": plain_pass(model, inputs), "diagnose": lambda: diagnose(model, inputs)}, ROUNDS, warm_up=2
    )
    plain, diagnosis = costs["plain"].seconds, costs["diagnose"].seconds
    limit = f"   limit {LIMITS[name]:.0f}x" if name in LIMITS else ""
    print(
        f"{name:34s} plain {plain * 1e3:8.1f} ms  diagnose {diagnosis * 1e3:8.1f} ms, {diagnosis / unit:6.1f} products"
        f"   ratio {diagnosis / plain:5.2f}x{limit}",
        flush=True,
    )


def mlp(depth: int = 50, width: int = 100) -> nn.Module:
    return MLP(depth=depth, width=width, generator=torch.Generator().manual_seed(0))


def main() -> None:
    torch.set_num_threads(2)
    torch.manual_seed(0)
    unit = product_seconds(1024, 1024, 1024)
    print(f"torch {torch.__version__}, 2 threads, medians of {ROUNDS} turns; one 1024-product is {unit * 1e3:.1f} ms")
    report(
        "ResNet-18, 3 x 64 x 64, batch 16",
        resolve("timm:resnet18").build(None),
        torch.randn(16, 3, 64, 64),
        unit,
    )
    report("MLP 50 x 100, batch 100", mlp(), torch.randn(100, 100), unit)
    print("growth with depth, width and batch (at most 64 samples are compared):")
    for depth in (25, 100, 200):
        report(f"  MLP {depth} x 100, batch 100", mlp(depth), torch.randn(100, 100), unit)
    for width in (256, 1024):
        report(f"  MLP 50 x {width}, batch 100", mlp(width=width), torch.randn(100, width), unit)
    for samples in (16, 64, 512):
        report(f"  MLP 50 x 100, batch {samples}", mlp(), torch.randn(samples, 100), unit)


if __name__ == "__main__":
    main()
