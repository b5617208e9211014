"""The probe on many processes: a batch split by DDP, FSDP2 or HSDP is measured as if one process held all of it.

`Processes` exchanges tensors, `SplitBatch` reads samples as `WholeBatch` does on one process, and
`SynchronizedBatchNorm` gives batch norm the statistics of the whole batch.
"""

import contextlib
import math
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from orthoscope.linalg import gram_factor
from orthoscope.linalg.matrices import is_sharded, local_part
from orthoscope.probe.hooks import wrappers
from orthoscope.probe.samples import (
    SEQUENCES,
    TOKENS,
    Reading,
    SampleAxis,
    evenly_spaced,
    floating_tensors,
    norm,
    norms_of,
    possible_axes,
    sample_factor,
    spacing,
    unit_direction,
)

# Numbers in one message: enough to describe the possible layouts of the tensors of an output.
_WORDS = 16
_FINE, _FAILED = 1, 0
# Tensors of an output that the processes compare.
_CANDIDATES = 4


def processes_of(model: nn.Module) -> "Processes | None":
    """Return the processes that each hold a part of the batch: those of DDP's group, or of the mesh of FSDP2.

    None for a model that is neither: all of its batch is here, whether or not other processes run.
    """
    for module in wrappers(model):
        if isinstance(module, nn.parallel.DistributedDataParallel):
            return _several([module.process_group], next(module.parameters()).device)
    mesh = _mesh(model)
    if mesh is None:
        return None
    _require_reduced_gradients(model)
    device = torch.device(mesh.device_type)
    if device.type != "cpu":
        device = torch.device(device.type, torch.get_device_module(device).current_device())
    return _several([mesh.get_group(dimension) for dimension in reversed(range(mesh.ndim))], device)


def _several(groups: Sequence[Any], device: torch.device) -> "Processes | None":
    return Processes(groups, device) if math.prod(group.size() for group in groups) > 1 else None


def _mesh(model: nn.Module) -> Any:
    """The one mesh of all parameters that FSDP2 shards, None if it shards none."""
    if not _fsdp_modules(model):
        return None
    for module in _fsdp_modules(model):
        module.reshard()  # parameters that stay unsharded after a forward pass show no mesh
    shards: list[Any] = [parameter for parameter in model.parameters() if is_sharded(parameter)]
    meshes = {parameter.device_mesh for parameter in shards}
    twice = any(sum(placement.is_shard() for placement in parameter.placements) > 1 for parameter in shards)
    if len(meshes) > 1 or twice:
        raise ValueError(
            "the parameters lie on several meshes or are cut along several dimensions, as under tensor parallelism: "
            "a diagnosis needs every parameter sharded over the same ranks that the batch is split over"
        )
    return meshes.pop() if meshes else None


def _require_reduced_gradients(model: nn.Module) -> None:
    """FSDP must average gradients over all processes, as it does by default."""
    for module in _fsdp_modules(model):
        for group in getattr(module._get_fsdp_state(), "_fsdp_param_groups", ()):
            if not (group.reduce_grads and group.all_reduce_grads):
                raise ValueError(
                    "FSDP is accumulating gradients without reducing them: diagnose between optimizer steps, "
                    "after model.set_requires_gradient_sync(True)"
                )
            if group.gradient_divide_factor is not None:
                raise ValueError(
                    f"FSDP divides gradients by {group.gradient_divide_factor} instead of the number of ranks: "
                    "diagnose before set_gradient_divide_factor is called"
                )


def _fsdp_modules(model: nn.Module) -> list[Any]:
    # `torch.distributed.fsdp` takes a second to import: without it no module is one of its kind.
    kind = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return [module for module in model.modules() if isinstance(module, kind)] if kind else []


def _replicas(tensor: Any) -> int:
    """How many processes hold each shard."""
    sizes = zip(tensor.placements, tensor.device_mesh.shape, strict=True)
    return math.prod(size for placement, size in sizes if placement.is_replicate())


class Processes:
    """The processes that a batch is split over, in an order that all of them agree on.

    Args:
        groups: A process group for every dimension of their mesh, the last dimension first: one for a line of
            processes, two where groups of processes hold replicas. Whatever is gathered comes in row-major order of the
            mesh, which is how `init_device_mesh` counts ranks.
        device: Where tensors are exchanged.
    """

    def __init__(self, groups: Sequence[Any], device: torch.device | None) -> None:
        sizes = [group.size() for group in groups]
        self.size = math.prod(sizes)
        self.groups = tuple(groups)
        self.rank = sum(group.rank() * math.prod(sizes[:level]) for level, group in enumerate(groups))
        self.device = device
        self._ended = False  # whether every process knows that the exchange is over

    def split_batch(self, samples: int) -> "SplitBatch":
        """Tell the others how many samples this process has, and return the batch as all of them see it."""
        counts = tuple(count for (count,) in self.agree("the batch", [samples]))
        if not any(counts):
            raise self.failure("the batch has no samples: give at least one, or eight for meaningful angles")
        return SplitBatch(self, counts)

    def gather(self, tensor: Tensor) -> Shaped[Tensor, "processes ..."]:
        """Stack the tensors of all processes, which have one shape; costs `size` times its bytes."""
        gathered = tensor.to(self.device).unsqueeze(0)
        for group in self.groups:
            parts = [torch.empty_like(gathered) for _ in range(group.size())]
            dist.all_gather(parts, gathered.contiguous(), group=group)
            gathered = torch.cat(parts)
        return gathered

    def sum_(self, tensor: Tensor) -> Tensor:
        """Sum the tensors of all processes in place."""
        for group in self.groups:
            dist.all_reduce(tensor, group=group)
        return tensor

    def gather_rows(self, rows: Float[Tensor, "mine ..."], counts: Sequence[int]) -> Float[Tensor, "all ..."]:
        """Concatenate the rows of all processes; `counts` says how many each has."""
        padded = rows.new_zeros(max(counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        return torch.cat([part[:count] for part, count in zip(self.gather(padded), counts, strict=True)])

    def gram_factor(self, rows: Float[Tensor, "mine units"], counts: Sequence[int]) -> Float[Tensor, "all all"]:
        r"""`linalg.gram_factor` of the rows of all processes, though none ever holds them all.

        Process $r$ gets a block $H_r$ of the columns of all rows, and of $H = (H_1 \dots H_R)$

        $$ H_r^\top = Q_r F_r^\top, \qquad (F_1 \dots F_R)^\top = QF^\top, \qquad FF^\top = HH^\top $$

        A process sends its rows once, and gathers `size` triangles of `all`² numbers in float64.
        """
        missing = -rows.shape[1] % self.size  # zeros add nothing to a product of rows
        columns = self._columns(torch.nn.functional.pad(rows.to(self.device), (0, missing)), counts)
        return gram_factor(torch.cat(list(self.gather(sample_factor(columns))), dim=-1))

    def _columns(self, rows: Float[Tensor, "mine units"], counts: Sequence[int]) -> Float[Tensor, "all share"]:
        """Exchange all columns of some rows for some columns of all rows, by one all-to-all in every group."""
        index, totals = self.rank, list(counts)
        for group in self.groups:
            ways = group.size()
            width = rows.shape[1] // ways
            block = index // ways
            sizes = totals[block * ways : (block + 1) * ways]
            sent = rows.reshape(len(rows), ways, width).transpose(0, 1).flatten()
            received = rows.new_empty(sum(sizes) * width)
            arriving, leaving = [count * width for count in sizes], [len(rows) * width] * ways
            dist.all_to_all_single(received, sent, arriving, leaving, group=group)
            rows = received.view(-1, width)
            index, totals = block, [sum(totals[at : at + ways]) for at in range(0, len(totals), ways)]
        return rows

    def norms(self, norms: Sequence[float | None]) -> list[float | None]:
        r"""$\sqrt{\sum_r n_r^2}$ for each of several numbers; None where no process has one."""
        if not norms:
            return []
        gathered = self.gather(torch.tensor([-1.0 if n is None else n for n in norms], dtype=torch.float64))
        largest = gathered.amax(0)
        # Scaled first: the square of 1e200 is infinite.
        scale = torch.where((largest > 0) & largest.isfinite(), largest, 1.0)
        total = (gathered.clamp_min(0) / scale).square().sum(0).sqrt() * scale
        return [
            None if nothing else value for nothing, value in zip((largest < 0).tolist(), total.tolist(), strict=True)
        ]

    def any(self, flags: Sequence[bool]) -> list[bool]:
        """For each of several flags, whether it is set on any process."""
        if not flags:
            return []
        return self.gather(torch.tensor(flags, dtype=torch.int64)).bool().any(0).tolist()

    def agree(self, step: str, numbers: Sequence[int] = ()) -> list[list[int]]:
        """Return the numbers of all processes if all are at the same step; raise on every process otherwise.

        Comes before any other exchange: a process that has failed is noticed here and nowhere else.
        """
        words = [_FINE, zlib.crc32(step.encode()), *numbers]
        assert len(words) <= _WORDS, "a message has a fixed length"
        gathered = self.gather(torch.tensor(words + [0] * (_WORDS - len(words)), dtype=torch.int64)).tolist()
        for rank, (state, where, *_) in enumerate(gathered):
            if state == _FAILED:
                raise self._end(f"rank {rank} failed on its part of the batch: see its own error")
            if where != words[1]:
                raise self._end(
                    f"the ranks ran different modules: rank {self.rank} is at {step}, rank {rank} elsewhere; "
                    "a diagnosis needs a model that calls the same modules in the same order on every part of the batch"
                )
        return [words[2 : 2 + len(numbers)] for words in gathered]

    def failure(self, reason: str) -> ValueError:
        """Make the error that every process raises at the same place."""
        self._ended = True
        return ValueError(reason)

    def _end(self, reason: str) -> RuntimeError:
        self._ended = True
        return RuntimeError(reason)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Context in which a failing process notifies the others at their next exchange, so that they do not wait."""
        try:
            yield
        except Exception:
            if not self._ended:
                self._ended = True
                with contextlib.suppress(RuntimeError):  # the connection itself may have failed
                    self.gather(torch.full((_WORDS,), _FAILED, dtype=torch.int64))
            raise

    @contextlib.contextmanager
    def resharded(self, model: nn.Module) -> Iterator[None]:
        """Context after which parameters are shards again, as they were when the mesh was looked up.

        After a forward pass FSDP leaves the root's parameters unsharded until the backward pass, and an unsharded
        parameter is another object: it must not be taken for the original and put in the place of a shard.
        """
        modules = _fsdp_modules(model)
        try:
            yield
        except Exception:
            # A pass that was interrupted leaves FSDP in the middle of it.
            for module in modules:
                with contextlib.suppress(RuntimeError, AttributeError):  # only a root that has run once can be reset
                    module.reset_iter_state()
            raise
        finally:
            for module in modules:
                module.reshard()


class SplitBatch:
    """The samples of this process among those of the whole batch; `counts` has the number on every process."""

    split = True

    def __init__(self, processes: Processes, counts: Sequence[int]) -> None:
        self.processes = processes
        self.counts = tuple(counts)
        self.device = processes.device

    @cached_property
    def samples(self) -> int:
        """Samples in this process."""
        return self.counts[self.processes.rank]

    @cached_property
    def total(self) -> int:
        """Samples in the whole batch."""
        return sum(self.counts)

    @cached_property
    def start(self) -> int:
        """Index in the whole batch of the first sample of this process."""
        return sum(self.counts[: self.processes.rank])

    @property
    def share(self) -> float:
        """Weight of a mean over this part in the mean over all."""
        return self.samples / self.total

    def local_indices(self, most: int) -> slice:
        """Those of at most `most` samples, evenly spaced over the whole batch, that are in this process."""
        step = spacing(self.total, most)
        return slice(-self.start % step, None, step)

    def local_counts(self, most: int) -> list[int]:
        """How many of them every process has."""
        step, chosen, start = spacing(self.total, most), [], 0
        for count in self.counts:
            chosen.append(len(range(-start % step, count, step)))
            start += count
        return chosen

    def read(self, value: Any, what: str) -> Reading | None:
        """Read the first tensor of an output that all processes can read alike.

        For each tensor a process says in which ways it may count samples, of how many units, and folded how often.
        """
        tensors = list(islice(floating_tensors(value), _CANDIDATES))
        words: list[int] = []
        for tensor in tensors:
            count = max(1, self.samples)  # sizes reported by processes without samples are ignored
            possible = sum(1 << axis for axis in possible_axes(tensor, self.samples, self.total))
            words += [possible, tensor.numel() // count, tensor.shape[0] // count]
        reported = self.processes.agree(what, words + [0] * (3 * _CANDIDATES - len(words)))
        filled = [numbers for numbers, count in zip(reported, self.counts, strict=True) if count]
        for index, tensor in enumerate(tensors):
            units = {numbers[3 * index + 1] for numbers in filled}
            folds = {numbers[3 * index + 2] for numbers in filled}
            for axis in SampleAxis:
                if not all(numbers[3 * index] >> axis & 1 for numbers in reported):
                    continue
                if axis is SampleAxis.FOLDED and len(folds) > 1:
                    continue
                if len(units) > 1:
                    raise self.processes.failure(
                        f"{what} has {' and '.join(map(str, sorted(units)))} units a sample on different ranks: "
                        "samples must be of one size to be compared, so pad all parts of the batch to one length"
                    )
                rows = folds.pop() if axis is SampleAxis.FOLDED else 1
                return Reading(tensor, axis, self.samples, self.total, units.pop(), rows)
        return None

    def compared(self, reading: Reading, most: int) -> Float[Tensor, "n n"]:
        """At most `most` samples of the whole batch, up to a rotation: their `linalg.gram_factor`."""
        return self.processes.gram_factor(reading.matrix[self.local_indices(most)], self.local_counts(most))

    def token_factors(self, sequences: Float[Tensor, "samples tokens units"]) -> Float[Tensor, "sequences n n"]:
        """`linalg.gram_factor` of the tokens of a few sequences of the whole batch."""
        tokens = evenly_spaced(sequences.shape[1], TOKENS)
        factors = sample_factor(sequences[self.local_indices(SEQUENCES)][:, tokens])
        return self.processes.gather_rows(factors, self.local_counts(SEQUENCES))

    def differ(self, tensor: Tensor | None) -> bool:
        """True if any sample of the whole batch differs from the first."""
        if tensor is None or tensor.ndim == 0 or tensor.shape[0] != self.samples:
            tensor = None
        differs = tensor is not None and bool((tensor[1:] != tensor[:1]).any())
        size = 0 if tensor is None else math.prod(tensor.shape[1:])
        reported = self.processes.agree("first samples", [int(tensor is not None), int(differs), size])
        if tensor is None or not all(counts_samples for counts_samples, _, _ in reported):
            return False
        if len({size for _, _, size in reported}) > 1 or any(differs for _, differs, _ in reported):
            return True
        firsts = self.processes.gather_rows(tensor[:1].reshape(-1, size), [min(1, count) for count in self.counts])
        return bool((firsts[1:] != firsts[:1]).any())

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Each flag, or-ed over processes."""
        return tuple(self.processes.any(flags))

    def direction(self, tensor: Tensor, reading: Reading | None, generator: torch.Generator) -> Tensor:
        """Draw the direction of the whole batch and return the part of this process.

        A tensor that does not count samples, such as a loss, is a mean over the part, and is weighted by its share.
        """
        if tensor.numel() == 1 and (reading is None or self.total == 1):
            return torch.full_like(tensor, self.share)
        shape = tensor.shape if reading is None else reading.shape
        direction = unit_direction(shape, tensor.dtype, generator)
        if reading is None:
            return (self.share * direction).to(tensor)
        rows = reading.rows_per_sample
        return direction.narrow(reading.dimension, self.start * rows, self.samples * rows).to(tensor)

    def synchronize(self, step: str) -> None:
        """Check that every process has come to the same step."""
        self.processes.agree(step)

    def batch_norm(self) -> "SynchronizedBatchNorm":
        """Context in which batch norm takes its statistics over all processes."""
        return SynchronizedBatchNorm(self.processes)

    def zero_parameters(self, parameters: Sequence[nn.Parameter]) -> list[bool]:
        """For each parameter, whether it is zero on every process."""
        held = self.processes.any([bool(local_part(parameter.detach()).any()) for parameter in parameters])
        return [not values for values in held]

    def total_norms(self, norms: Sequence[float | None]) -> list[float | None]:
        """Norms over the whole batch."""
        return self.processes.norms(norms)

    def gradient_sizes(self, parameters: Sequence[nn.Parameter]) -> dict[int, tuple[float, float]]:
        r"""Norm of the gradient of the whole batch and sum of its absolute values, by id of the parameter.

        FSDP leaves shards $\bar g_s$ of the average over $R$ processes, each on $k$ of them, so that
        $\|g\| = R\sqrt{\sum_r \|\bar g_{s(r)}\|^2/k}$. Any other gradient is of a process's own part: they are summed.
        """
        processes = self.processes
        wanted = processes.any([parameter.grad is not None for parameter in parameters])
        parameters = [parameter for parameter, some in zip(parameters, wanted, strict=True) if some]
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        shards = [
            norm(local_part(g)) * processes.size / _replicas(g) ** 0.5 if is_sharded(g) else None for g in gradients
        ]
        parts = norms_of([local_part(g) if is_sharded(g) else None for g in gradients], order=1)
        # A sum over processes is the square of the norm of roots.
        roots = [
            None if part is None else (part * processes.size / _replicas(g)) ** 0.5
            for part, g in zip(parts, gradients, strict=True)
        ]
        joined = zip(processes.norms(shards), processes.norms(roots), strict=True)
        found = {}
        for parameter, g, (size, root) in zip(parameters, gradients, joined, strict=True):
            if is_sharded(g):
                found[id(parameter)] = size or 0.0, (root or 0.0) ** 2
            else:
                whole = processes.sum_((g.to_dense() if g.is_sparse else g).contiguous())
                found[id(parameter)] = norm(whole), norms_of([whole], order=1)[0] or 0.0
        return found

    def weight_norms(self, parameters: Sequence[nn.Parameter]) -> list[float]:
        """Norms of the parameters, joined from their shards."""
        own = norms_of([local_part(parameter.detach()) for parameter in parameters])
        shards = [
            (number or 0.0) / _replicas(parameter) ** 0.5 if is_sharded(parameter) else None
            for number, parameter in zip(own, parameters, strict=True)
        ]
        joined = zip(self.processes.norms(shards), own, strict=True)
        return [(number if shard is None else shard) or 0.0 for shard, number in joined]


class SynchronizedBatchNorm(TorchFunctionMode):
    r"""Context in which `batch_norm` takes batch statistics over all processes, forward and backward.

    $$ \mu = \tfrac1m \sum_r \sum_{i \in r} x_i, \qquad \sigma^2 = \tfrac1m \sum_r \sum_{i \in r} (x_i - \mu)^2,
       \qquad y_i = \gamma\,\frac{x_i - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta $$

    The function and not the module is replaced, so that modules that call it in their own way are covered.
    Running statistics are left alone. Costs four sums over processes of two numbers a channel.
    """

    def __init__(self, processes: Processes) -> None:
        super().__init__()
        self.processes = processes

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {**dict(zip(_ARGUMENTS.get(function, ()), args, strict=False)), **(kwargs or {})}
        if function in _ARGUMENTS and given.get("training"):
            normalized = self._normalized(given["input"], given.get("eps", 1e-5))
            return _scaled(normalized, given.get("weight"), given.get("bias")).to(given["input"].dtype)
        return function(*args, **(kwargs or {}))

    def _normalized(self, inputs: Tensor, epsilon: float) -> Tensor:
        self.processes.agree("batch norm")
        # Sums of half-precision numbers are kept in single precision, as batch norm does.
        values = inputs.to(torch.promote_types(inputs.dtype, torch.float32))
        others = [0, *range(2, values.ndim)]
        count = values.new_full((values.shape[1],), inputs.numel() / max(1, inputs.shape[1]))
        total, size = self._sum(torch.stack([values.sum(others), count]))
        centered = values - _per_channel(total / size.detach(), values)
        variance = self._sum(centered.square().sum(others)) / size.detach()
        return centered * _per_channel((variance + epsilon).rsqrt(), values)

    def _sum(self, tensor: Tensor) -> Tensor:
        return _Sum.apply(tensor, self.processes)


class _Sum(torch.autograd.Function):
    """Sum over processes. Every process's loss depends on the sum, so the backward pass is a sum as well."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, processes: Processes) -> Tensor:
        ctx.processes = processes
        return processes.sum_(tensor.clone())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.processes.sum_(gradient.clone()), None


def _per_channel(vector: Tensor, like: Tensor) -> Tensor:
    return vector.view(1, -1, *[1] * (like.ndim - 2))


def _scaled(normalized: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = normalized if weight is None else normalized * _per_channel(weight, normalized)
    return scaled if bias is None else scaled + _per_channel(bias, normalized)


_ARGUMENTS: dict[Any, tuple[str, ...]] = {
    torch.batch_norm: ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps"),
    torch.nn.functional.batch_norm: (
        "input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps",
    ),
}  # fmt: skip
