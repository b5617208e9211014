"""One number to add to a loss that pulls the weights of a whole model towards orthogonality."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope.layers.parametrization import computing_dtype
from orthoscope.layers.penalties import deviation_along, spectral_direction
from orthoscope.layers.selection import Include, WeightLayer, selected_layers
from orthoscope.linalg import group_matrices
from orthoscope.linalg.convolution import convolution_deviation
from orthoscope.linalg.precision import full_precision
from orthoscope.metrics.deviation import double_sided, gram_deviation, mutual_coherence, one_sided, smaller_side

Kind = Literal["so", "dso", "srip", "coherence"]
_FROBENIUS: dict[str, Callable[[Tensor, int, bool, bool], Tensor]] = {"so": one_sided, "dso": double_sided}
_KINDS = (*_FROBENIUS, "srip", "coherence")

# Below this many entries one batched product is faster than many single ones; above, the copy costs more than it saves.
_STACKED_ENTRIES = 1 << 14


@final
class OrthogonalityPenalty(nn.Module):
    r"""`loss + penalty()`: `weight` times the sum over the layers of a penalty of their weights.

    The floor that a weight which is not square cannot go below is left out: 0 means that every weight is as orthogonal
    as its shape allows. A weight used twice counts once. Weights are read at each call, so parametrized, replaced and
    moved ones are followed; weights on several devices are added up on the first one's. A convolution with groups is
    block diagonal. The two ways to read a convolution differ: filters can be orthonormal one by one and overlap when
    shifted, and a convolution can preserve every image while its columns, for one position, are neither orthogonal nor
    of length one.

    Args:
        model: The model; `names` lists its weights that are selected.
        kind: "so", "dso", "srip" or "coherence": see `soft_orthogonality`, `double_sided_orthogonality`, `srip` and
            `mutual_coherence`.
        weight: Factor of the penalty, from 0.
        include: Which `nn.Linear` and `nn.Conv*` weights: shell patterns or names of layers or weights, or a function
            of name and layer. By default all, except those that are also an embedding's.
        convolution: "matrix" reads a convolution as the matrix `(out, in·k·k)` of one output position; "operator" as
            the linear map of unbounded images, by $\|K * K^\top - \delta\|_F$ (Wang et al., 2020), for "so" and "dso".
        squared: Square the norms ("so", "dso", "srip").
        steps: Power steps of "srip" at each call, from the direction at the end of the last call in training mode;
            the directions are buffers, kept in the `state_dict`.

    Raises:
        TypeError, ValueError: For options without meaning, patterns that match nothing, or weights that are not real.
    """

    def __init__(
        self,
        model: nn.Module,
        kind: Kind = "so",
        weight: float = 1e-4,
        include: Include = None,
        *,
        convolution: Literal["matrix", "operator"] = "matrix",
        squared: bool = False,
        steps: int = 2,
    ) -> None:
        super().__init__()
        if kind not in _KINDS:
            raise ValueError(f"unknown kind of penalty {kind!r}: choose one of {', '.join(_KINDS)}")
        if convolution not in ("matrix", "operator"):
            raise ValueError(f"a convolution is read as 'matrix' or 'operator', got {convolution!r}")
        if convolution == "operator" and kind not in _FROBENIUS:
            raise ValueError(
                f"convolution='operator' is for {' and '.join(_FROBENIUS)}, not for {kind!r}: use 'matrix'"
            )
        if squared and kind == "coherence":
            raise ValueError("squared=True is for norms ('so', 'dso', 'srip'): coherence is none")
        if steps < 1:
            raise ValueError(f"power iteration takes at least one step, got steps={steps}")
        if not hasattr(weight, "__float__"):
            raise TypeError(f"weight must be a number, got {weight!r}: convert it with float()")
        if not 0 <= weight < math.inf:
            raise ValueError(f"weight={weight} would not pull towards orthogonality: give a finite number from 0 up")
        self.kind, self.weight, self.convolution, self.squared, self.steps = kind, weight, convolution, squared, steps
        layers = selected_layers(model, include)
        self.names = tuple(layers)
        # In a tuple they are not children of this module: its parameters and its state are its own.
        self._layers = tuple(layers.values())
        self._check_layers()
        if kind == "srip":
            for place, layer in enumerate(self._layers):
                blocks = _blocks(layer)
                start = spectral_direction(blocks.to(computing_dtype(blocks.dtype)), steps=0)
                self.register_buffer(f"direction_{place}", start.clone())

    def forward(self) -> Tensor:
        """The penalty of all weights together."""
        total = self._values()
        return self.weight * torch.stack([value.to(total[0]) for value in total]).sum()

    @torch.no_grad()
    def values(self) -> dict[str, float]:
        """The penalty of every weight, by name, before `weight`."""
        return {name: float(value) for name, value in zip(self.names, self._values(), strict=True)}

    def extra_repr(self) -> str:
        """Kind, factor, and number of weights."""
        return f"kind={self.kind!r}, weight={self.weight:g}, {len(self.names)} weights"

    def _values(self) -> list[Tensor]:
        values: dict[int, Tensor] = {}
        stacks: dict[object, list[tuple[int, Tensor]]] = defaultdict(list)
        for place, layer in enumerate(self._layers):
            if self.convolution == "operator" and isinstance(layer, _ConvNd):
                values[place] = self._of_operator(layer)
                continue
            blocks = _blocks(layer)
            small = blocks.numel() < _STACKED_ENTRIES
            stacks[(blocks.shape, blocks.dtype, blocks.device) if small else place].append((place, blocks))
        for members in stacks.values():
            places = [place for place, _ in members]
            for place, value in zip(places, self._of_stack(places, [blocks for _, blocks in members]), strict=True):
                values[place] = value
        return [values[place] for place in range(len(self._layers))]

    def _of_stack(self, places: Sequence[int], blocks: Sequence[Tensor]) -> Iterable[Tensor]:
        """The penalties of layers of one shape, each `(groups, out, fan_in)`."""
        dtype = computing_dtype(blocks[0].dtype)
        with full_precision(blocks[0].device.type):
            stack = (torch.stack(list(blocks)) if len(blocks) > 1 else blocks[0].unsqueeze(0)).to(dtype)
            if self.kind == "coherence":
                return mutual_coherence(smaller_side(stack)).amax(-1).unbind()
            if self.kind == "srip":
                return self._spectral(places, stack).amax(-1).unbind()
            groups, out, fan_in = stack.shape[1:]
            return self._frobenius(gram_deviation(stack).sum(-1), groups * out, groups * fan_in).unbind()

    def _of_operator(self, layer: _ConvNd) -> Tensor:
        kernel = layer.weight
        with full_precision(kernel.device.type):
            deviation = convolution_deviation(kernel.to(computing_dtype(kernel.dtype)), layer.stride, layer.groups)
        strides = torch.Size(layer.stride).numel()
        rows, columns = kernel.shape[0], kernel.shape[1] * layer.groups * strides
        # The kernel of a transposed convolution is that of its adjoint.
        return self._frobenius(deviation, *((columns, rows) if layer.transposed else (rows, columns)))

    def _frobenius(self, deviation: Tensor, rows: int, columns: int) -> Tensor:
        missing = max(0, columns - rows) if self.kind == "so" else abs(columns - rows)
        return _FROBENIUS[self.kind](deviation, missing, self.squared, True)

    def _spectral(self, places: Sequence[int], stack: Tensor) -> Tensor:
        before = torch.stack([self.get_buffer(f"direction_{place}").to(stack) for place in places])
        norm, after = deviation_along(stack, spectral_direction(stack, self.steps - 1, before))
        if self.training and torch.is_grad_enabled():
            # Zero, from an orthonormal weight, and nan are not directions to continue from.
            usable = torch.linalg.vector_norm(after, dim=-1, keepdim=True) > 0.5
            for place, direction in zip(places, torch.where(usable, after, before), strict=True):
                self.get_buffer(f"direction_{place}").copy_(direction.detach())
        return norm.square() if self.squared else norm

    def _check_layers(self) -> None:
        for name, layer in zip(self.names, self._layers, strict=True):
            if not layer.weight.is_floating_point():
                raise TypeError(
                    f"{name} is of type {layer.weight.dtype}, and a penalty needs real floating-point numbers: leave it"
                    " out by `include`"
                )
            is_operator = self.convolution == "operator"
            if is_operator and isinstance(layer, _ConvNd) and max(layer.stride) > 1 and max(layer.dilation) > 1:
                raise ValueError(
                    f"{name} is both strided and dilated, for which there is no operator form: "
                    f"leave it out by `include`, or use convolution='matrix'"
                )


def _blocks(layer: WeightLayer) -> Tensor:
    """The weight as one matrix `(out, in·k·k)` for every group."""
    if isinstance(layer, _ConvNd):
        return group_matrices(layer.weight, layer.groups, layer.transposed)
    return group_matrices(layer.weight)
