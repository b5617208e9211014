"""Iterative orthogonalisation (Daneshmand et al., 2021): every layer evens out the batch that reaches it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from orthoscope.init.patches import layer_rows
from orthoscope.init.schemes import weight_layers
from orthoscope.init.sharded import is_sharded
from orthoscope.init.trial import check_accepted
from orthoscope.init.weights import WeightLayer, blocks_shape, fill_, weight_blocks
from orthoscope.linalg import haar, polar_factor, sample_frame
from orthoscope.probe.batches import as_call, copied
from orthoscope.probe.restoration import probing_mode, untouched

Slice = Float64[Tensor, "out directions"]

# What becomes of the slice of U, by the name of the frame.
FRAMES: dict[str, Callable[[Slice, torch.Generator], Slice]] = {
    "nearest": lambda slice_, _: polar_factor(slice_),
    "random": lambda slice_, generator: haar(
        *slice_.shape, generator=generator, dtype=slice_.dtype, device=generator.device
    ).to(slice_.device),
    "slice": lambda slice_, _: slice_,
}


@dataclass
class _Making:
    """What is asked for, and the weights and condition numbers so far."""

    power: float
    output_rms: float | None
    frame: Callable[[Slice, torch.Generator], Slice]
    generator: torch.Generator
    weights: dict[str, Tensor] = field(default_factory=dict)
    conditions: dict[str, float] = field(default_factory=dict)


def iterative_(
    model: nn.Module,
    batch: Any,
    power: float = 0.5,
    output_rms: float | None = 1.0,
    frame: str = "nearest",
    keep: Collection[str] | None = None,
    generator: torch.Generator | None = None,
) -> dict[str, float]:
    r"""Layer by layer in forward order, weights made from the singular values of what the layer is given.

    $$ H = U \Sigma V^\top, \qquad W = s\,Q\,\Sigma^{-p}\,V^\top, \qquad HW^\top = s\,U\,\Sigma^{1-p}\,Q^\top $$

    $H$ is `(samples, units)`, of a convolution one patch a row. With `power` $p = 1/2$, the paper's equation (6), each
    layer takes the root of every singular value; with 1, as in the authors' code, they become equal at once. $s$ makes
    `output_rms` the root mean square of $HW^\top$, or with None, as printed, $\|HW^\top\|_F = 1$. The `frame` $Q$ is

    * "slice": as many random rows of $U$ as there are outputs, the paper's; it is not orthonormal, so that samples may
      become less orthogonal;
    * "nearest": the orthonormal matrix nearest to that. Each unit answers to one sample, most positively, so a ReLU
      takes little away;
    * "random": any orthonormal matrix. A ReLU then halves what arrives, and the next layer removes the mean of the
      rest, so gradients grow by $\sqrt{\pi/(\pi-1)} = 1.21$ a layer, as with batch norm.

    Directions in which the batch does not reach, up to rounding, get no weight: give several times as many samples as
    units. If a layer has fewer outputs than $H$ has directions, the strongest are kept. Biases become 0. Layers named
    in `keep` stay as they are; by default the first, whose input is raw data, and the last, which has one output a
    class. A layer that is called more than once is made for its first call; one that cannot be filled, as an
    orthogonal or a sharded one, is refused before any is changed. Returns, by layer, the condition number of
    $Q\Sigma^{-p}$ for an orthonormal $Q$: what it evens out for samples it makes uneven for gradients.
    """
    if frame not in FRAMES:
        raise ValueError(f"unknown frame {frame!r}: choose one of {', '.join(FRAMES)}")
    layers = _chosen(model, keep)
    check_accepted(layers, lambda layer, _: fill_(layer, 2 * weight_blocks(layer)), "a weight made for a batch")
    making = _Making(power, output_rms, FRAMES[frame], generator or _seeded_by_the_global_one())
    call = as_call(model, batch)
    with untouched(model), probing_mode(model, batch_statistics=True), torch.no_grad():
        for name, layer in layers:
            layer.register_forward_pre_hook(partial(_make, name, making))
        args, kwargs = copied((call.args, dict(call.kwargs)), layers[0][1].weight.device)
        model(*args, **kwargs)
    for name, layer in layers:
        if name in making.weights:
            _write(layer, making.weights[name])
    return making.conditions


def _chosen(model: nn.Module, keep: Collection[str] | None) -> list[tuple[str, WeightLayer]]:
    layers = weight_layers(model)
    names = [name for name, _ in layers]
    if keep is None:
        keep = {names[0], names[-1]} if names else set()
    unknown = [name for name in keep if name not in names]
    if unknown:
        raise ValueError(f"there is no weight layer {unknown[0]!r} to keep: choose of {', '.join(names)}")
    chosen = [(name, layer) for name, layer in layers if name not in keep]
    if not chosen:
        raise ValueError(
            "no weight layer is left to make: a network has hidden layers from depth 3 on, or give keep=()"
        )
    for name, layer in chosen:
        if is_sharded(layer.weight):
            raise ValueError(
                f"layer {name!r} is sharded, and ranks would make it for batches of their own: shard it afterwards"
            )
    return chosen


def _seeded_by_the_global_one() -> torch.Generator:
    """Other numbers at every call, although the pass itself leaves the global generator as it was."""
    return torch.Generator().manual_seed(int(torch.randint(2**62, ())))


def _make(name: str, making: _Making, layer: WeightLayer, inputs: tuple[Any, ...]) -> None:
    """Fill the layer for what is about to go through it, so that the next one sees what it will."""
    if name in making.weights:
        return
    rows = layer_rows(name, layer, inputs[0])
    _, out, _ = blocks_shape(layer)
    precision = torch.finfo(layer.weight.dtype).eps
    blocks = [_evened(name, group, out, precision, making) for group in rows]
    weight = torch.stack([block for block, _ in blocks])
    outputs = rows @ weight.mT
    rms = making.output_rms
    making.weights[name] = weight / (outputs.norm() if rms is None else outputs.square().mean().sqrt() / rms)
    making.conditions[name] = max(condition for _, condition in blocks)
    _write(layer, making.weights[name])


def _evened(name: str, rows: Tensor, out: int, precision: float, making: _Making) -> tuple[Tensor, float]:
    r"""$Q\Sigma^{-p}V^\top$ for one group, and its condition number."""
    if not bool(rows.isfinite().all()):
        raise ValueError(f"the input of layer {name!r} is not finite: look at the batch and the layers before it")
    # The triangle has the singular values and right vectors of the rows, and none of their number.
    right, values, _ = torch.linalg.svd(sample_frame(rows.mT))
    reached = int((values > values[0] * max(rows.shape) * precision).sum())
    if reached == 0:
        raise ValueError(
            f"the input of layer {name!r} is zero: (a) the batch is zero, (b) the units before it are all dead"
        )
    values, right = values[: min(reached, out)], right[:, : min(reached, out)]
    order = torch.randperm(len(rows), generator=making.generator, device=making.generator.device)
    chosen = order.repeat(-(-out // len(rows)))[:out].to(rows.device)
    frame = making.frame(rows[chosen] @ right / values, making.generator)
    multipliers = values**-making.power
    return frame * multipliers @ right.mT, float(multipliers.max() / multipliers.min())


def _write(layer: WeightLayer, blocks: Tensor) -> None:
    fill_(layer, blocks)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
