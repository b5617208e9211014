"""Iterative orthogonalisation (Daneshmand et al., 2021): every layer evens out the batch that reaches it."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from orthoscope.init.forward_order import ONE_BATCH, in_forward_order
from orthoscope.init.input_moments import InputMoments
from orthoscope.init.patches import row_blocks
from orthoscope.init.weights import WeightLayer, blocks_shape, fill_
from orthoscope.linalg import haar, polar_factor
from orthoscope.linalg.svd import svd
from orthoscope.probe.batches import Call, as_call, first_samples

Slice = Float64[Tensor, "out directions"]

# What becomes of the slice of U, by the name of the frame.
FRAMES: dict[str, Callable[[Slice, torch.Generator], Slice]] = {
    "nearest": lambda slice_, _: polar_factor(slice_),
    "random": lambda slice_, generator: haar(
        *slice_.shape, generator=generator, dtype=slice_.dtype, device=generator.device
    ).to(slice_.device),
    "slice": lambda slice_, _: slice_,
}


def iterative_(
    model: nn.Module,
    batch: Any,
    power: float = 0.5,
    output_rms: float | None = 1.0,
    frame: str = "nearest",
    keep: Collection[str] | None = None,
    samples: int | None = None,
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

    **What is made**: every `nn.Linear` and `nn.Conv1d`, `2d`, `3d`, grouped or not, but those named in `keep`, which by
    default are the first that is called, whose input is raw data, and the last, which has one output a class. Biases
    of what is made become 0; embeddings, heads tied to one, and normalisations stay. Directions in which the batch does
    not reach, up to rounding, as behind dead units, get no weight. If a layer has fewer outputs than $H$ has
    directions, the strongest are kept.

    **What it costs**: a tensor, tuple or dict is one batch, and one forward pass makes all layers, each when its input
    arrives. A DataLoader, or another iterable that can be gone through again, is a stream of batches. A layer then
    needs all batches before the next one can be made, so there is a pass over the stream for each layer, stopped at
    that layer, and one to the end: for $k$ equal layers the work of about $k/2$ passes. At any time there are only
    the activations of one batch, a triangle `(fan_in, fan_in)` and as many rows as the layer has outputs.

    **What is refused**, with every weight as it was: a layer that is not called, that is called more than once or
    shares its weight (it has no one place in forward order), that is called without a tensor, or that cannot be made:
    transposed convolutions, orthogonal, sharded and lazy layers; a batch that is zero, not finite, one sample again and
    again, or so small that a layer gets fewer rows than the rank of its weight,
    $\min(\text{fan\_in}, \text{out})$.

    **How many samples**: of a ReLU network, as many as a layer has units; `samples` takes so many from the front of a
    larger batch. The frame "nearest" is then all of $U$, as is the "slice", and up to the order of the samples
    $HW^\top = s\,U\Sigma^{1-p}U^\top$ has a large positive diagonal, of which a ReLU takes nothing: networks of 75
    layers learn as fast as those of 15. By three times as many they do not (papers.daneshmand2021, Figure 4).

    Random numbers come from `generator`, by default one with the seed of the global generator, which is not moved.
    Returns, by layer in forward order, the condition number of $Q\Sigma^{-p}$ for an orthonormal $Q$: what it evens
    out for samples it makes uneven for gradients.
    """
    if frame not in FRAMES:
        raise ValueError(f"unknown frame {frame!r}: choose one of {', '.join(FRAMES)}")
    if samples is not None:
        batch = _first(model, batch, samples)
    generator = generator or torch.Generator().manual_seed(torch.initial_seed())
    state = generator.get_state()
    maker = _Maker(power, output_rms, FRAMES[frame], generator)
    try:
        made = in_forward_order(model, batch, keep, maker)
    except BaseException:
        generator.set_state(state)
        raise
    for name, layer in made:
        _write(layer, maker.weights[name])
    return {name: maker.conditions[name] for name, _ in made}


def _first(model: nn.Module, batch: Any, samples: int) -> Call:
    if not isinstance(samples, int) or samples < 1:
        raise ValueError(f"samples is {samples!r}, but must be a whole number, at least 1: so many make the weights")
    if not isinstance(batch, ONE_BATCH):
        raise ValueError(f"samples= takes them from one batch, and a {type(batch).__name__} is none: give one batch")
    return first_samples(as_call(model, batch), samples)


class _Maker:
    """What is asked for, what has been seen of the layer's input that is being looked at, and what was made of it."""

    def __init__(
        self,
        power: float,
        output_rms: float | None,
        frame: Callable[[Slice, torch.Generator], Slice],
        generator: torch.Generator,
    ) -> None:
        self.power, self.output_rms, self.frame, self.generator = power, output_rms, frame, generator
        self.seen: dict[str, InputMoments] = {}
        self.samples: dict[str, int] = {}
        self.weights: dict[str, Tensor] = {}
        self.conditions: dict[str, float] = {}

    def see(self, name: str, layer: WeightLayer, inputs: Tensor) -> None:
        """Take in a part of what the layer is given."""
        if not inputs.numel():
            raise ValueError(
                f"layer {name!r} gets an empty batch: give one of at least as many samples as it has units"
            )
        moments = self.seen.setdefault(name, InputMoments(blocks_shape(layer)[1], self.generator))
        self.samples[name] = self.samples.get(name, 0) + len(inputs)
        for rows in row_blocks(layer, inputs):
            if not bool(rows.isfinite().all()):
                raise ValueError(f"the input of layer {name!r} is not finite: look at the batch and the layers before")
            moments.add(rows)

    def make(self, name: str, layer: WeightLayer) -> None:
        """Fill the layer for what was seen, so that the next one sees what it will."""
        moments = self.seen.pop(name)
        self._check_enough(name, layer, moments.rows)
        assert moments.triangle is not None, "a layer is made after it was called"
        assert moments.sample is not None
        # With more outputs than rows, rows are taken again.
        sample = moments.sample.repeat(1, -(-moments.wanted // moments.rows), 1)[:, : moments.wanted]
        precision = torch.finfo(layer.weight.dtype).eps
        groups = zip(moments.triangle, sample, strict=True)
        blocks = [self._evened(name, *group, moments.rows, precision) for group in groups]
        weight = torch.stack([block for block, _ in blocks])
        # ‖HWᵀ‖ = ‖WF‖, since HᵀH = FFᵀ.
        norm = (weight @ moments.triangle).norm()
        entries = moments.rows * weight.shape[0] * weight.shape[1]
        rms = self.output_rms
        self.weights[name] = weight / (norm if rms is None else norm / entries**0.5 / rms)
        self.conditions[name] = max(condition for _, condition in blocks)
        _write(layer, self.weights[name])

    def _check_enough(self, name: str, layer: WeightLayer, rows: int) -> None:
        _, out, fan_in = blocks_shape(layer)
        if rows >= min(out, fan_in):
            return
        samples = self.samples[name]
        needed = -(-min(out, fan_in) * samples // rows)
        raise ValueError(
            f"the batch is too small: layer {name!r} is a {out} x {fan_in} matrix and gets {rows} rows from {samples} "
            f"samples, so it would be of rank {rows} at most: give at least {needed} samples"
        )

    def _evened(self, name: str, triangle: Tensor, sample: Tensor, rows: int, precision: float) -> tuple[Tensor, float]:
        r"""$Q\Sigma^{-p}V^\top$ for one group, and its condition number."""
        right, values, _ = svd(triangle)
        reached = int((values > values[0] * max(rows, len(triangle)) * precision).sum())
        if reached == 0:
            raise ValueError(
                f"the input of layer {name!r} is zero: (a) the batch is zero, (b) the units before it are all dead"
            )
        out = len(sample)
        values, right = values[: min(reached, out)], right[:, : min(reached, out)]
        frame = self.frame(sample @ right / values, self.generator)
        multipliers = values**-self.power
        return frame * multipliers @ right.mT, float(multipliers.max() / multipliers.min())


def _write(layer: WeightLayer, blocks: Tensor) -> None:
    fill_(layer, blocks)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
