"""Daneshmand, Joudaki & Bach (2021), Table 3: the convolutional networks of Figure 7, of 20 and of 80 convolutions.

The networks are built, without values, and an image goes through them. Every row of the table can be met, but not all
at once: three poolings leave 256 maps of 4x4 of a 32x32 image, 4096 numbers, where the first linear layer takes 1024.
One halving is not in the table: the stride 2 of the first convolution, as in AlexNet and in the authors' notebook
(which also has a convolution 192 → 192 in place of one of the repeated ones, to the same count).
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from orthoscope_papers.daneshmand2021.alexnet_like import alexnet_like
from orthoscope_papers.evidence import Evidence, Verdict
from orthoscope_papers.panels import Panel, averaged

CLAIM = (
    "Two networks with 20 and 80 convolutions of kernel 3 and three linear layers, from 1024 numbers; for that the "
    "first convolution must have stride 2, which the table does not print."
)
KIND = "simulation"
POOLING, CONVOLUTION, LINEAR = "MaxPool2d", "Conv2d", "Linear"
PRINTED_FEATURES = 1024
# (inputs, outputs) of every row with weights, but for the repeated one; the first linear layer as printed.
PRINTED_ENDS = ((3, 64), (64, 192), (192, 256), (256, 256)), ((PRINTED_FEATURES, 4096), (4096, 4096), (4096, 10))


@dataclass(frozen=True)
class Config:
    depths: tuple[int, ...] = (20, 80)
    side: int = 32
    seeds: tuple[int, ...] = (0,)  # nothing is random: the networks have no values


QUICK = Config(depths=(8, 20))


class Row(NamedTuple):
    depth: int
    layer: int  # from 1, in forward order
    kind: str
    inputs: int  # channels, or units
    outputs: int
    kernel: int
    stride: int
    side: int  # of the map that leaves it; 0 for a vector
    parameters: int


def run(config: Config) -> list[Row]:
    return [row for depth in config.depths for row in layers_of(depth, config.side)]


def cells(config: Config) -> list[Config]:
    return [replace(config, depths=(depth,)) for depth in config.depths]


def layers_of(depth: int, side: int) -> list[Row]:
    """Convolutions, poolings and linear layers as an image of that side meets them."""
    rows: list[Row] = []

    def record(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        kernel, stride = (_side(getattr(module, name, 0)) for name in ("kernel_size", "stride"))
        sizes = inputs[0].shape[1], output.shape[1]
        parameters = sum(parameter.numel() for parameter in module.parameters())
        place = output.shape[-1] if output.ndim == 4 else 0
        rows.append(Row(depth, len(rows) + 1, type(module).__name__, *sizes, kernel, stride, place, parameters))

    with torch.device("meta"):
        network = alexnet_like(depth=depth)
        for module in network.modules():
            if type(module).__name__ in (CONVOLUTION, POOLING, LINEAR):
                module.register_forward_hook(record)
        network(torch.empty(1, 3, side, side))
    return rows


def _side(size: Any) -> int:
    return int(size[0]) if isinstance(size, tuple) else int(size)


def of_kind(rows: list[Row], depth: int, kind: str) -> list[Row]:
    return [row for row in rows if (row.depth, row.kind) == (depth, kind)]


def features(rows: list[Row], depth: int, hidden_halvings: int) -> int:
    """How many numbers reach the linear layers if, beside the poolings, the maps are halved so many times."""
    halvings = len(of_kind(rows, depth, POOLING)) + hidden_halvings
    last = of_kind(rows, depth, CONVOLUTION)[-1]
    first = rows[0]
    side = first.side * first.stride  # of the image
    return last.outputs * (side // 2**halvings) ** 2


def check(rows: list[Row]) -> dict[str, bool]:
    depths = sorted({row.depth for row in rows})
    convolutions = {depth: of_kind(rows, depth, CONVOLUTION) for depth in depths}
    linear = {depth: tuple((r.inputs, r.outputs) for r in of_kind(rows, depth, LINEAR)) for depth in depths}
    return {
        "each network has as many convolutions as its name says, all of kernel 3": all(
            len(found) == depth and all(row.kernel == 3 for row in found) for depth, found in convolutions.items()
        ),
        "channels are those of the printed rows, the rest 256 to 256": all(
            tuple((row.inputs, row.outputs) for row in found)
            == PRINTED_ENDS[0] + ((256, 256),) * (depth - len(PRINTED_ENDS[0]))
            for depth, found in convolutions.items()
        ),
        "linear layers are those printed": all(found == PRINTED_ENDS[1] for found in linear.values()),
        "by the printed poolings alone 4096 numbers would reach them, not 1024": all(
            features(rows, depth, 0) == 4 * PRINTED_FEATURES for depth in depths
        ),
        "with one more halving it is 1024": all(features(rows, depth, 1) == PRINTED_FEATURES for depth in depths),
        "and the first convolution is the only strided one": all(
            [row.stride for row in found] == [2] + [1] * (len(found) - 1) for found in convolutions.values()
        ),
    }


def compare(rows: list[Row]) -> list[Evidence]:
    evidence = []
    for depth in sorted({row.depth for row in rows}):
        count = float(len(of_kind(rows, depth, CONVOLUTION)))
        same = count == depth
        name = f"convolutions of the network with {depth} layers"
        evidence.append(Evidence(name, float(depth), count, count, count, "agrees" if same else "differs"))
    found = float(features(rows, rows[0].depth, 0))
    verdict: Verdict = "agrees" if found == PRINTED_FEATURES else "corrected"
    why = "the table leaves out the stride 2 of the first convolution, with which it is 1024"
    name = "numbers that reach the first linear layer, by the layers as printed"
    return [*evidence, Evidence(name, float(PRINTED_FEATURES), found, found, found, verdict, why)]


def plot(rows: list[Row]) -> list[Panel]:
    """Parameters layer by layer, and the side of the maps."""
    depths = sorted({row.depth for row in rows})
    learned = [row for row in rows if row.kind != POOLING]
    weights = [
        averaged(f"{depth} convolutions", [(r.layer, float(r.parameters)) for r in learned if r.depth == depth])
        for depth in depths
    ]
    sides = [
        averaged(f"{depth} convolutions", [(r.layer, float(r.side)) for r in rows if r.depth == depth and r.side])
        for depth in depths
    ]
    most = max(row.parameters for row in rows)
    return [
        Panel("Weights and biases", "parameters a layer", "layer", weights, y_range=(1e3, 2 * most), log_y=True),
        Panel("Maps of a 32x32 image", "side of the map that leaves a layer", "layer", sides),
    ]
