"""Iterative orthogonalization (Daneshmand et al., 2021): every layer evens out the singular values of its input.

`InputMoments` keeps the singular values of a layer's input and a random sample of its rows, in memory that does not
grow with the number of rows.
"""

import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn
from torch.nn import functional

from orthoscope.init._forward_order import in_forward_order
from orthoscope.init.weights import WeightLayer, blocks_shape, check_network, fill_
from orthoscope.linalg import gram_factor, haar, polar_factor
from orthoscope.linalg.polar import svd
from orthoscope.probe.batches import as_call
from orthoscope.probe.samples import first_samples

Slice = Float64[Tensor, "out directions"]
Rows = Float64[Tensor, "groups rows fan_in"]

# Elements of patches unfolded at once, 64 MB: a 3 x 3 kernel unfolds every input number into nine.
_BLOCK_ELEMENTS = 1 << 23

# Q from the slice of U, by the name of the frame.
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
    r"""Set weights layer by layer, in forward order, from the singular values of each layer's input.

    $$ H = U \Sigma V^\top, \qquad W = s\,Q\,\Sigma^{-p}\,V^\top, \qquad HW^\top = s\,U\,\Sigma^{1-p}\,Q^\top $$

    $H$ is the input of the layer, `(samples, units)`, for a convolution one patch per row. Singular directions of $H$
    that are 0 up to rounding, as after dead units, get no weight; if a layer has fewer outputs than $H$ has directions,
    the largest are kept. Biases of these layers become 0; embeddings, heads tied to one, and normalization layers stay
    unchanged.

    For a ReLU network, as many samples as a layer has units work best: the "nearest" frame is then all of $U$, and up
    to the order of the samples $HW^\top = s\,U\Sigma^{1-p}U^\top$ has a large positive diagonal, which a ReLU keeps.
    Networks of 75 layers then learn as fast as those of 15; with three times as many samples they do not
    (daneshmand2021, Figure 4).

    One forward pass, whose memory holds the activations, a triangle `(fan_in, fan_in)` and as many rows as the layer
    has outputs.

    Args:
        model: Changed in place: every `nn.Linear` and `nn.Conv1d`, `2d`, `3d`, grouped or not, except `keep`.
        batch: As for `probe.record`: a tensor, tuple, dict or DataLoader, which stands for its first batch.
        power: $p$. With 1/2, the paper's equation (6), each layer takes the square root of every singular value; with
            1, as in the authors' code, they become equal at once.
        output_rms: The root mean square of $HW^\top$, by the factor $s$; None for $\|HW^\top\|_F = 1$, as printed.
        frame: How $Q$ is made. "slice" (the paper): as many random rows of $U$ as there are outputs; not orthonormal,
            so samples may become less orthogonal. "nearest": the orthonormal matrix nearest to that slice; each unit
            responds to one sample, mostly positively, so a ReLU removes little. "random": a Haar matrix; a ReLU then
            halves the signal, and the next layer removes the mean of the rest, so gradients grow by
            $\sqrt{\pi/(\pi-1)} = 1.21$ per layer, as with batch norm.
        keep: Names of layers to leave unchanged; by default the first that is called, whose input is raw data, and the
            last, which has one output per class.
        samples: Use only so many samples from the front of a larger batch.
        generator: Source of random numbers; by default one with the seed of the global generator, which is not moved.

    Returns:
        By layer, in forward order, the condition number of $Q\Sigma^{-p}$ for an orthonormal $Q$, by which gradients
        become uneven.

    Raises:
        ValueError: With every weight unchanged, if a layer is not called, is called more than once, shares its weight,
            is called without a tensor, or cannot be set (transposed convolutions, orthogonal, sharded and lazy layers);
            if the batch is zero, not finite, one sample repeated, or so small that a layer gets fewer rows than the
            rank of its weight, $\min(\text{fan\_in}, \text{out})$.
    """
    if frame not in FRAMES:
        raise ValueError(f"unknown frame {frame!r}: choose one of {', '.join(FRAMES)}")
    check_network(model)
    call = as_call(model, batch)
    if samples is not None:
        if not isinstance(samples, int) or samples < 1:
            raise ValueError(f"samples is {samples!r}, but must be a whole number of at least 1")
        call = first_samples(call, samples)
    generator = generator or torch.Generator().manual_seed(torch.initial_seed())
    state = generator.get_state()
    maker = _Maker(power, output_rms, FRAMES[frame], generator)
    try:
        made = in_forward_order(model, call, keep, maker)
    except BaseException:
        generator.set_state(state)
        raise
    for name, layer in made:
        _write(layer, maker.weights[name])
    return {name: maker.conditions[name] for name, _ in made}


class _Maker:
    """Computes the weight of each layer from its input, and writes it, so that later layers get their final input."""

    def __init__(
        self,
        power: float,
        output_rms: float | None,
        frame: Callable[[Slice, torch.Generator], Slice],
        generator: torch.Generator,
    ) -> None:
        self.power, self.output_rms, self.frame, self.generator = power, output_rms, frame, generator
        self.weights: dict[str, Tensor] = {}
        self.conditions: dict[str, float] = {}

    def __call__(self, name: str, layer: WeightLayer, inputs: Tensor) -> None:
        moments = self._moments(name, layer, inputs)
        self._check_enough(name, layer, moments.rows, len(inputs))
        assert moments.triangle is not None, "the input is not empty"
        assert moments.sample is not None
        # With more outputs than rows, rows are repeated.
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

    def _moments(self, name: str, layer: WeightLayer, inputs: Tensor) -> "InputMoments":
        if not isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d):
            raise ValueError(
                f"layer {name!r} is a {type(layer).__name__}, whose input is not unfolded into patches: "
                "name it in `keep`"
            )
        if not inputs.numel():
            raise ValueError(
                f"layer {name!r} gets an empty batch: give one of at least as many samples as it has units"
            )
        moments = InputMoments(blocks_shape(layer)[1], self.generator)
        for rows in row_blocks(layer, inputs):
            if not bool(rows.isfinite().all()):
                raise ValueError(f"the input of layer {name!r} is not finite: check the batch and the layers before")
            moments.add(rows)
        return moments

    @staticmethod
    def _check_enough(name: str, layer: WeightLayer, rows: int, samples: int) -> None:
        _, out, fan_in = blocks_shape(layer)
        if rows >= min(out, fan_in):
            return
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


class InputMoments:
    r"""Triangle $F$, number and random sample of the rows of $H$, `(groups, rows, fan_in)`, which are added in blocks.

    $$ FF^\top = H^\top H = \sum_{\text{blocks}} H_b^\top H_b, \qquad F \in \mathbb{R}^{\text{fan\_in} \times
       \text{fan\_in}} $$

    $F$ has the singular values of $H$, and its left singular vectors are the right ones of $H$. It is updated by a QR
    factorization, not summed as $H^\top H$, which would square the condition number. Each row draws a key from
    `generator`, and the `wanted` rows with the smallest keys are kept: a uniform sample without repetition, in random
    order, that does not depend on the division into blocks.
    """

    def __init__(self, wanted: int, generator: torch.Generator) -> None:
        self.wanted, self.generator = wanted, generator
        self.rows = 0
        self.triangle: Float64[Tensor, "groups fan_in fan_in"] | None = None
        self.sample: Float64[Tensor, "groups wanted fan_in"] | None = None
        self._keys = torch.empty(0, dtype=torch.float64, device=generator.device)

    def add(self, rows: Rows) -> None:
        """Add a block of rows."""
        keys = torch.rand(rows.shape[1], generator=self.generator, dtype=torch.float64, device=self.generator.device)
        keys = torch.cat([self._keys, keys])
        lowest = keys.argsort()[: self.wanted]
        seen = rows if self.sample is None else torch.cat([self.sample, rows], dim=1)
        self._keys, self.sample = keys[lowest], seen[:, lowest.to(rows.device)]
        columns = rows.mT if self.triangle is None else torch.cat([self.triangle, rows.mT], dim=-1)
        self.triangle = gram_factor(columns)
        self.rows += rows.shape[1]


def row_blocks(layer: WeightLayer, inputs: Tensor) -> Iterator[Rows]:
    """`layer_rows` of a few samples at a time, which bounds the memory for the patches of a large batch."""
    if isinstance(layer, nn.Linear):
        yield layer_rows(layer, inputs)
        return
    batched = inputs if inputs.ndim == len(layer.kernel_size) + 2 else inputs.unsqueeze(0)
    a_sample = batched[0].numel() * math.prod(layer.kernel_size) / math.prod(layer.stride)
    for samples in batched.split(max(1, int(_BLOCK_ELEMENTS / max(a_sample, 1)))):
        yield layer_rows(layer, samples)


def layer_rows(layer: WeightLayer, inputs: Tensor) -> Rows:
    """The rows that a layer multiplies: without the bias its output is `rows @ weight_blocks(layer).mT`.

    One row per sample (and token) for a linear layer; for `nn.Conv1d`, `nn.Conv2d` and `nn.Conv3d` of batched inputs
    one row per patch, given their padding, stride and dilation.
    """
    if isinstance(layer, nn.Linear):
        return inputs.reshape(1, -1, inputs.shape[-1]).double()
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    windows = functional.pad(inputs, tuple(layer._reversed_padding_repeated_twice), mode=mode)
    cut = zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    for axis, (taps, stride, dilation) in enumerate(cut, start=2):
        windows = windows.unfold(axis, dilation * (taps - 1) + 1, stride)[..., ::dilation]
    # From (samples, channels, *positions, *taps): channels first in a patch, those of a group adjacent.
    grouped = windows.movedim(1, len(layer.kernel_size) + 1).unflatten(len(layer.kernel_size) + 1, (layer.groups, -1))
    rows = grouped.flatten(len(layer.kernel_size) + 2).flatten(end_dim=len(layer.kernel_size))
    return rows.transpose(0, 1).double()
