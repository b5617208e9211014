"""Jacobians of residual blocks by products, beside dense ones. Writes the page and the numbers behind it.

`make bench-residual` takes about three minutes on one thread of a quiet machine.
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
        spent = cost(lambda name=block.name: blocks_of(model, size, [name]))
        rows.append({"block": block.name, "size": shown, "method": "products", **spent, **_error(block, None)})
        if min(inputs, outputs) <= LARGEST_DENSE:
            exact: list[Tensor] = []
            beside = cost(lambda one=block, found=exact: found.append(dense(one)))
            error = _error(block, exact[0])
            rows.append({"block": block.name, "size": shown, "method": "dense", **beside, **error, "estimate": None})
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
    """The same block, with the same weights, on smaller images, where the SVD of its dense Jacobian can judge it."""
    model = network()
    rows = []
    for size in (16, 20, 24):
        (block,) = blocks_of(model, size, ["layer1.0"])
        exact = torch.linalg.svdvals(block.operator.dense()[0].double())[:TOP]
        rows.append({"dimensions": block.operator.inputs, **_error(block, exact)})
    return rows


def alone(part: Callable[[], Any]) -> Callable[[], Any]:
    """On one thread: both ways are judged alike, and neighbors on the machine do not matter as much."""

    def run() -> Any:
        torch.set_num_threads(1)
        return part()

    return run


def main() -> None:
    parts = {"twins": alone(twins), "large": alone(large), "blocks": alone(all_blocks)}
    record("residual", __doc__, parts, page)


if __name__ == "__main__":
    main()
