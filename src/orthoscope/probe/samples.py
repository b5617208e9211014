"""The tensors of one call, and how every tensor of a pass is read as samples.

Which dimension counts samples, what is a token, and the factor they are reduced to. `WholeBatch` is the ordinary case,
all samples in one process; `orthoscope.probe.distributed.SplitBatch` has the same methods for a batch that is split.
"""

import copy
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.linalg import gram_factor
from orthoscope.linalg.matrices import whole

# Modules whose output is (samples, channels, positions): the second dimension is not a sequence.
CHANNELS_FIRST = (
    nn.Conv1d,
    nn.ConvTranspose1d,
    nn.BatchNorm1d,
    nn.InstanceNorm1d,
    nn.GroupNorm,
    nn.MaxPool1d,
    nn.AvgPool1d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveMaxPool1d,
)

# What the token view compares: tokens of each of a few sequences, evenly spaced.
SEQUENCES, TOKENS = 4, 64

# Relative error of singular values accepted in exchange for float32 products: four digits are right, three are shown.
# Where a model computes in float64, ten.
_TOLERANCE, _DOUBLE_TOLERANCE = 1e-4, 1e-10

# Numbers of an output from which on its random direction has entries of equal size.
_LARGE_OUTPUT = 1 << 20

# Numbers that are summed in float32 at once.
_ROW = 1024


@dataclass(frozen=True)
class Call:
    """The arguments of one forward pass, and the target that came with them for a loss."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    target: Any = None

    @property
    def samples(self) -> int:
        """Number of samples: the size of the first dimension of the first tensor."""
        first = next(tensors_in((self.args, self.kwargs)), None)
        if first is None or first.ndim == 0:
            raise ValueError(
                "the batch holds no tensor with a sample dimension: give a tensor, or a tuple, dict or "
                "DataLoader of tensors whose first dimension counts samples"
            )
        return first.shape[0]


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists, dicts, dataclasses and graph objects, in order."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for entry in dataclasses.fields(value):
            yield from tensors_in(getattr(value, entry.name))
    elif (parts := graph_parts(value)) is not None:
        yield from tensors_in(parts)


def graph_parts(value: Any) -> dict[str, Any] | None:
    """The attributes of a graph object, such as torch_geometric's `Data`, nodes first; None for anything else."""
    known = isinstance(value, (Tensor, Mapping, tuple, list, str, bytes, int, float)) or value is None
    if known or not all(isinstance(getattr(value, name, None), Tensor) for name in ("x", "edge_index")):
        return None
    keys = getattr(value, "keys", None)
    names = keys() if callable(keys) else vars(value) if keys is None else keys
    return {"x": value.x} | {name: getattr(value, name) for name in names if not name.startswith("_")}


def first_samples(call: Call, samples: int) -> Call:
    """The first samples of every tensor that counts them; all of them, if there are no more, or they are nodes."""
    if call.samples <= samples or not divisible(call):
        return call
    return chosen_samples(call, torch.arange(samples))


def chosen_samples(call: Call, indices: Tensor) -> Call:
    """The samples of these indices of every tensor that counts them."""
    count = call.samples
    return Call(
        *mapped(
            (tuple(call.args), dict(call.kwargs), call.target),
            lambda one: one[indices.to(one.device)] if one.ndim and one.shape[0] == count else one,
        )
    )


def divisible(call: Call) -> bool:
    """Whether samples can be taken out: not if they are the nodes of a graph, which edges or an adjacency connect."""
    values = (*call.args, *call.kwargs.values())
    if "edge_index" in call.kwargs or any(graph_parts(value) is not None for value in values):
        return False
    count, (_, *others) = call.samples, tensors_in(values)
    return not any(one.ndim == 2 and one.shape[0] in (2, count) and _connects(one, count) for one in others)


def _connects(tensor: Tensor, count: int) -> bool:
    """Whether a matrix beside the samples may be their adjacency, or a list of edges."""
    return tensor.shape == (count, count) or (tensor.shape[0] == 2 != count and tensor.dtype is torch.int64)


def mapped(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The same nested tuples, lists, dicts, dataclasses and graphs, with `function` of every tensor in its place."""
    if isinstance(value, Tensor):
        return function(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Before dicts: an output of transformers is both, and has attributes.
        names = [entry.name for entry in dataclasses.fields(value) if entry.init]
        return dataclasses.replace(value, **{name: mapped(getattr(value, name), function) for name in names})
    if isinstance(value, Mapping):
        return {key: mapped(item, function) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        items = (mapped(item, function) for item in value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if (parts := graph_parts(value)) is not None:
        twin = copy.copy(value)
        for name, part in parts.items():
            setattr(twin, name, mapped(part, function))
        return twin
    return value


def copied(value: Any, device: torch.device, differentiable: bool = False, precision: torch.dtype | None = None) -> Any:
    """The same nested value on `device`, every tensor a copy; floating ones part of the gradient graph if asked.

    Copies keep the user's batch safe from in-place models; the extra clone makes them non-leaves,
    so that such models do not fail either.
    """

    def copy(tensor: Tensor) -> Tensor:
        floating = tensor.is_floating_point()
        fresh = tensor.detach().to(device, precision if floating else None).clone()
        return fresh.requires_grad_().clone() if differentiable and floating else fresh

    return mapped(value, copy)


def sample_factor(rows: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch samples samples"]:
    """`linalg.gram_factor`, as accurate as the numbers of a diagnosis have to be."""
    return gram_factor(rows, tolerance=_TOLERANCE if rows.element_size() <= 4 else _DOUBLE_TOLERANCE)


def evenly_spaced(count: int, most: int) -> slice:
    """Select at most `most` of `count` indices, evenly spaced and always the same ones."""
    return slice(0, None, spacing(count, most))


def spacing(count: int, most: int) -> int:
    """Step of `evenly_spaced`."""
    return max(1, -(-count // most))


class SampleAxis(IntEnum):
    """Where a tensor counts samples: first dimension, second, or with windows or heads folded into the first."""

    FIRST = 0
    SECOND = 1
    FOLDED = 2

    def fits(self, tensor: Tensor, samples: int, several: bool) -> bool:
        """True if `tensor` may hold `samples` samples this way; `several` if the whole batch has more than one."""
        if self is SampleAxis.FIRST:
            return tensor.shape[0] == samples
        if self is SampleAxis.SECOND:
            return tensor.ndim >= 3 and tensor.shape[1] == samples
        divides = tensor.ndim >= 2 and several and tensor.shape[0] % max(1, samples) == 0
        return divides and (tensor.shape[0] > 0) is (samples > 0)


@dataclass(frozen=True)
class Reading:
    """A tensor read as `samples` samples of `units` numbers each; `total` is the size of the whole batch."""

    tensor: Tensor
    axis: SampleAxis
    samples: int
    total: int
    units: int
    rows_per_sample: int = 1  # of the first dimension: more than one where windows or heads are folded into it

    @property
    def dimension(self) -> int:
        """The dimension that counts samples."""
        return 1 if self.axis is SampleAxis.SECOND else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape that the tensor would have for the whole batch."""
        sizes = list(self.tensor.shape)
        sizes[self.dimension] = self.total * self.rows_per_sample
        return tuple(sizes)

    @property
    def matrix(self) -> Float[Tensor, "samples units"]:
        """One row a sample."""
        tensor = self.tensor.transpose(0, 1) if self.axis is SampleAxis.SECOND else self.tensor
        return tensor.reshape(self.samples, self.units)

    @property
    def sequences(self) -> Float[Tensor, "samples tokens units"] | None:
        """One sequence a sample, None if the tensor has no three dimensions or a single token."""
        if self.tensor.ndim != 3 or self.axis is SampleAxis.FOLDED:
            return None
        sequences = self.tensor.transpose(0, 1) if self.axis is SampleAxis.SECOND else self.tensor
        return sequences if sequences.shape[1] > 1 else None


def possible_axes(tensor: Tensor, samples: int, total: int) -> Iterator[SampleAxis]:
    """Yield the ways in which a tensor may count samples, the most likely first."""
    if tensor.numel() > 0 or samples == 0:
        yield from (axis for axis in SampleAxis if axis.fits(tensor, samples, total > 1))


def floating_tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of an output that can be measured: floating point, with at least one dimension."""
    return (tensor for tensor in tensors_in(value) if tensor.is_floating_point() and tensor.ndim > 0)


@dataclass(frozen=True)
class WholeBatch:
    """All samples of the batch are in this process.

    Attributes:
        total: Samples in the whole batch.
        split: Whether other processes hold a part of the batch.
        device: Where the batch goes; None: to the device of the model.
    """

    total: int
    split: bool = False
    device: torch.device | None = None

    def __post_init__(self) -> None:
        if not self.total:
            raise ValueError("the batch has no samples: give at least one, or eight for meaningful angles")

    def read(self, value: Any, what: str) -> Reading | None:
        """Read the first floating-point tensor of an output that counts the samples of the batch.

        Besides batch-first tensors: sequence-first `(tokens, samples, units)`, and windows or heads folded into the
        first dimension, `(samples * k, ...)`.
        """
        for tensor in floating_tensors(value):
            for axis in possible_axes(tensor, self.total, self.total):
                rows = tensor.shape[0] // self.total if axis is SampleAxis.FOLDED else 1
                return Reading(tensor, axis, self.total, self.total, tensor.numel() // self.total, rows)
        return None

    def compared(self, reading: Reading, most: int) -> Float[Tensor, "n units"]:
        """Rows of at most `most` samples, evenly spaced; may be a view."""
        return reading.matrix[evenly_spaced(self.total, most)]

    def token_factors(self, sequences: Float[Tensor, "samples tokens units"]) -> Float[Tensor, "sequences n n"]:
        """`linalg.gram_factor` of the tokens of a few sequences."""
        samples, tokens = evenly_spaced(self.total, SEQUENCES), evenly_spaced(sequences.shape[1], TOKENS)
        return sample_factor(sequences[samples][:, tokens])

    def differ(self, tensor: Tensor | None) -> bool:
        """True if any sample differs from the first."""
        counts_samples = tensor is not None and tensor.ndim > 0 and tensor.shape[0] == self.total
        return counts_samples and bool((tensor[1:] != tensor[:1]).any())  # type: ignore[index]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag, or-ed over processes: as it is."""
        return flags

    def direction(self, tensor: Tensor, reading: Reading | None, generator: torch.Generator) -> Tensor:
        """Draw a random direction of unit length; 1 for a single number."""
        if tensor.numel() == 1:
            return torch.ones_like(tensor)
        return unit_direction(tensor.shape, tensor.dtype, generator).to(tensor)

    def synchronize(self, step: str) -> None:
        """Check that every process has come to the same step: there is one."""

    def batch_norm(self) -> AbstractContextManager[Any]:
        """Context in which batch norm sees the whole batch, as it does anyway."""
        return nullcontext()

    def zero_parameters(self, parameters: Sequence[nn.Parameter]) -> list[bool]:
        """For each parameter, whether it is zero everywhere."""
        return [is_zero(parameter.detach()) for parameter in parameters]

    def total_norms(self, norms: Sequence[float | None]) -> list[float | None]:
        """Norms over the whole batch from those of this process's part: as they are."""
        return list(norms)

    def gradient_sizes(self, parameters: Sequence[nn.Parameter]) -> dict[int, tuple[float, float]]:
        """Norm of the gradient and sum of its absolute values, by id of the parameter; without those that have none."""
        held = [(parameter, parameter.grad) for parameter in parameters if parameter.grad is not None]
        sums = norms_of([gradient for _, gradient in held], order=1)
        return {id(one): (norm(gradient), total or 0.0) for (one, gradient), total in zip(held, sums, strict=True)}

    def weight_norms(self, parameters: Sequence[nn.Parameter]) -> list[float]:
        """Norms of the parameters."""
        return [number or 0.0 for number in norms_of(parameters)]


def unit_direction(shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Draw an isotropic random direction of unit length; on the CPU, so that it is the same on every device.

    Uniform on the sphere for outputs of ordinary size. For large ones, such as the logits of a language model, entries
    of equal size with random signs: isotropic as well, and several times as fast to draw.
    """
    size, wide = math.prod(shape), torch.promote_types(dtype, torch.float32)
    if size < _LARGE_OUTPUT:
        direction = torch.randn(tuple(shape), generator=generator, device="cpu")
        return direction.to(wide) / torch.linalg.vector_norm(direction, dtype=torch.float64).to(wide)
    words = torch.empty(-(-size // 64), dtype=torch.int64, device="cpu").random_(-(2**63), None, generator=generator)
    octets = words.view(torch.uint8).int()
    bits = (torch.arange(256, device="cpu").unsqueeze(-1) >> torch.arange(8, device="cpu")) & 1
    signs = (2 * bits - 1).to(wide) * size**-0.5
    return signs.index_select(0, octets).flatten()[:size].view(tuple(shape))


def is_zero(tensor: Tensor) -> bool:
    """True if every entry is zero. The first row proves the contrary for almost every weight."""
    return not (tensor.ndim and bool(tensor[:1].any())) and not bool(torch.count_nonzero(tensor))


def norm(gradient: Tensor) -> float:
    """Frobenius norm to single precision, for tensors of any size and scale.

    Summed in rows: one float32 sum over 5e7 numbers is off by up to 2 %. In float64 where float32 squares could
    overflow or vanish (1e20, 1e-23), and in half precision.
    """
    gradient = whole(gradient).detach()
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    if gradient.numel() > _ROW**2:
        # Dimensions by falling stride, so that a dense tensor of any memory format is flattened without a copy.
        order = sorted(range(gradient.ndim), key=gradient.stride().__getitem__, reverse=True)
        flat = gradient.permute(order).reshape(-1)
        cut = flat.numel() // _ROW * _ROW
        rows = torch.linalg.vector_norm(flat[:cut].view(-1, _ROW), dim=-1)
        quick = math.hypot(float(torch.linalg.vector_norm(rows.double())), float(torch.linalg.vector_norm(flat[cut:])))
    else:
        quick = float(torch.linalg.vector_norm(gradient))
    if 1e-9 < quick < 1e15 and gradient.element_size() >= 4:
        return quick
    if quick == 0 and is_zero(gradient):
        return 0.0
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(gradient.cpu().to(wide)))


@torch.no_grad()
def norms_of(tensors: Sequence[Tensor | None], order: int = 2) -> list[float | None]:
    """The norms of the tensors, None of None; those of one device and type are stacked and fetched together.

    Each is one sum in single precision, to a few digits; `norm` is for those that are shown.
    """
    found: list[float | None] = [None] * len(tensors)
    by_kind: dict[tuple[torch.device, torch.dtype], list[tuple[int, Tensor]]] = {}
    for position, tensor in enumerate(tensors):
        if tensor is not None:
            size = _norm(tensor.detach(), order)
            by_kind.setdefault((size.device, size.dtype), []).append((position, size))
    for norms in by_kind.values():
        stacked = torch.stack([one for _, one in norms]).tolist()
        for (position, _), number in zip(norms, stacked, strict=True):
            found[position] = number
    return found


def _norm(tensor: Tensor, order: int) -> Tensor:
    if tensor.layout is not torch.strided:
        tensor = tensor.coalesce().values() if tensor.is_sparse else tensor.to_dense()
    # Sums over many numbers, and squares of small ones, need more than half precision.
    wide = tensor if tensor.is_complex() or tensor.element_size() >= 4 else tensor.float()
    return torch.linalg.vector_norm(wide, order)
