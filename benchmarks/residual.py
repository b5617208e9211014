"""Jacobians of residual blocks by products, beside dense ones. Writes the page and the numbers behind it.

`make bench-residual` takes about five minutes on two cores, which should have nothing else to do.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.models import resolve
from orthoscope.probe import BlockJacobian, residual_jacobians
from record import record
from residual_page import page
from timing import alternating

TOP = 10
# Beyond so many dimensions a dense SVD takes minutes, and soon after more memory than there is.
LARGEST_DENSE = 2048


def network() -> nn.Module:
    """ResNet-18 whose branches do not end in a zero, as they would at first: a dead block is too easy."""
    return resolve("timm:resnet18(zero_init_last=False)").build(torch.Generator().manual_seed(0))


def image(size: int) -> Tensor:
    return torch.randn(1, 3, size, size, generator=torch.Generator().manual_seed(1))


def batch(size: int) -> Tensor:
    """What batch norm takes its statistics from."""
    return torch.randn(8, 3, size, size, generator=torch.Generator().manual_seed(2))


def blocks_of(model: nn.Module, size: int, names: list[str] | None = None, **options: Any) -> list[BlockJacobian]:
    return list(residual_jacobians(model, image(size), names, TOP, statistics=batch(size), **options))


def cost(call: Callable[[], object]) -> dict[str, Any]:
    found = alternating({"it": call}, rounds=1, warm_up=0, patience=0.0)["it"]
    peak = None if found.peak_bytes is None else found.peak_bytes / 2**20
    return {"seconds": found.seconds, "peak_mebibytes": peak}


def dense(block: BlockJacobian) -> Tensor:
    """Autograd's whole Jacobian, row by row batched, and its SVD in the same precision."""
    return torch.linalg.svd(block.operator.dense()[0], full_matrices=False).S[:TOP]


def all_blocks() -> list[dict[str, Any]]:
    """Every block of ResNet-18 at 64 x 64, and beside it the dense way, where that fits."""
    model, size = network(), 64
    rows = [{"block": "all", "size": "", "method": "products", **cost(lambda: blocks_of(model, size))}]
    for block in blocks_of(model, size):
        outputs, inputs = block.operator.shape
        shown = str(inputs) if inputs == outputs else f"{inputs} to {outputs}"
        alone = cost(lambda name=block.name: blocks_of(model, size, [name]))
        rows.append({"block": block.name, "size": shown, "method": "products", **alone, **_error(block, None)})
        if max(inputs, outputs) <= LARGEST_DENSE:
            exact = dense(block)
            beside = cost(lambda one=block: dense(one))
            rows.append({"block": block.name, "size": shown, "method": "dense", **beside, **_error(block, exact)})
    return rows


def _error(block: BlockJacobian, exact: Tensor | None) -> dict[str, float | None]:
    """What the method says its error is, relative to the largest value, and what it was."""
    largest = float(block.singular_values[0, 0])
    said = float(block.spectrum.errors.max()) / largest
    seen = None if exact is None else float((block.singular_values[0] - exact.double()).abs().max()) / largest
    return {"estimate": said, "error": seen}


def large() -> list[dict[str, Any]]:
    """The first block at full size, D = 64·56·56: time, memory, and how sure its values are."""
    model = network()
    found: list[BlockJacobian] = []
    spent = cost(lambda: found.extend(blocks_of(model, 224, ["layer1.0"])))
    return [{"dimensions": found[0].operator.inputs, **spent, **_error(found[0], None)}]


def twins() -> list[dict[str, Any]]:
    """The same block, with the same weights, on smaller images, where a dense SVD in float64 can judge it."""
    model = network()
    rows = []
    for size in (16, 20, 24):
        (block,) = blocks_of(model, size, ["layer1.0"])
        (double,) = blocks_of(model, size, ["layer1.0"], dtype=torch.float64)
        exact = torch.linalg.svdvals(double.operator.dense()[0])[:TOP]
        rows.append({"dimensions": block.operator.inputs, **_error(block, exact)})
    return rows


def main() -> None:
    record("residual", __doc__, {"twins": twins, "large": large, "blocks": all_blocks}, page)


if __name__ == "__main__":
    main()
