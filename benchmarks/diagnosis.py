"""What a diagnosis costs: alternating with a plain forward and backward pass in one process, medians, as ratios.

Run it on a quiet machine: `make benchmark`. Writes results/benchmarks/diagnosis.json and docs/diagnosis_benchmark.md,
from which README and docs take their numbers.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from diagnosis_page import GROWTH, NETWORKS, page
from orthoscope import diagnose
from orthoscope.models import MLP, resolve
from record import record
from timing import alternating

ROUNDS = 15
IDS = 50257  # GPT-2's vocabulary


def plain_pass(model: nn.Module, inputs: Tensor) -> Callable[[], None]:
    def run() -> None:
        model.zero_grad(set_to_none=True)
        output = model(inputs)
        (output if isinstance(output, Tensor) else output.logits).sum().backward()

    return run


def row(name: str, model: nn.Module, inputs: Tensor) -> dict[str, Any]:
    """Seconds of both, as medians of alternating turns."""
    candidates = {"plain": plain_pass(model, inputs), "diagnose": lambda: diagnose(model, inputs)}
    costs = alternating(candidates, ROUNDS, warm_up=2, patience=200.0)
    return {"network": name, "plain": costs["plain"].seconds, "diagnose": costs["diagnose"].seconds}


def mlp(depth: int = 50, width: int = 100) -> nn.Module:
    return MLP(depth=depth, width=width, generator=torch.Generator().manual_seed(0))


def networks() -> list[dict[str, Any]]:
    torch.manual_seed(0)
    made = (
        (resolve("timm:resnet18"), torch.randn(16, 3, 64, 64)),
        (resolve("timm:resnet50"), torch.randn(16, 3, 224, 224)),
        (resolve("hf:gpt2"), torch.randint(IDS, (8, 128))),
    )
    rows = [row(name, target.build(None), inputs) for name, (target, inputs) in zip(NETWORKS, made, strict=False)]
    return [*rows, row(NETWORKS[-1], mlp(), torch.randn(100, 100))]


def growth() -> list[dict[str, Any]]:
    """How the cost grows with depth, width and batch; at most 64 samples are compared."""
    torch.manual_seed(0)
    sizes = [(25, 100, 100), (100, 100, 100), (200, 100, 100), (50, 256, 100), (50, 1024, 100)]
    sizes += [(50, 100, 16), (50, 100, 64), (50, 100, 512)]
    return [
        row(GROWTH.format(depth, width, samples), mlp(depth, width), torch.randn(samples, width))
        for depth, width, samples in sizes
    ]


if __name__ == "__main__":
    record("diagnosis", __doc__, {"networks": networks, "growth": growth}, page)
