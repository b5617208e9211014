"""Rows of a recording: one `Layer` per module call with all its metrics, from what the hooks kept."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.findings import Status
from orthoscope.metrics.representations import Representation, metrics_of_factors
from orthoscope.probe.hooks import ModuleCall, Observer, class_name, owned_parameters
from orthoscope.probe.samples import Call, sample_factor, tensors_in

# Energy around the mean, relative to all energy, below which float32 rows are the same row.
_IDENTICAL = 1e-13

# Elements of factors that are stacked at once, half a megabyte in float64: temporaries stay in the cache.
_STACK_ELEMENTS = 1 << 16


@dataclass(frozen=True)
class Layer:
    """The output of one module call.

    Attributes:
        index: Position among all module calls.
        name: Name of the module.
        call: 0 for the first call of this module in the pass.
        kind: Class of the module.
        depth: Number of weight layers from the input up to this one; None for modules without a weight matrix.
        shape: Shape of the output for the whole batch.
        samples: Number of samples that the metrics compare.
        units: Numbers per sample.
        status: Measured, zero by design, dead, constant, or not finite.
        rms: Root mean square of the compared entries.
        sample_view: Metrics of samples; None if they were not measured.
        token_view: Metrics of tokens within a sequence; None without sequences.
        gradient_norm: Norm of the gradient of the loss with respect to this output, over the whole batch; None if none
            arrived.
        weight_gradient_norm: The same for the weight matrices of the module.
        also: Modules that returned the very same tensor.
        trainable: Whether a parameter of the module requires a gradient.
        tokens: Number of tokens of a sequence that were compared; 0 without `token_view`.
        branch: Whether it is inside a residual branch: what it loses or shrinks, the skip connection keeps.
        differentiable: Whether the output requires a gradient.
    """

    index: int
    name: str
    call: int
    kind: str
    depth: int | None
    shape: tuple[int, ...]
    samples: int
    units: int
    status: Status
    rms: float
    sample_view: Representation | None
    token_view: Representation | None
    gradient_norm: float | None
    weight_gradient_norm: float | None
    also: tuple[str, ...] = ()
    trainable: bool = False
    tokens: int = 0
    branch: bool = False
    differentiable: bool = True

    def __str__(self) -> str:
        size = "×".join(map(str, self.shape)) or "scalar"
        gradient = "" if self.gradient_norm is None else f", gradient norm {self.gradient_norm:.3g}"
        first = f"{self.name or '(model)'}: {self.kind} {size}"
        if self.sample_view is None:
            return f"{first}, {self.status}{gradient}"
        rank = f"effective rank {self.effective_rank:.1f} of {self.capacity}"
        return f"{first}, gap {self.gap:.2f}, {rank}, overlap {self.overlap:.2f}, rms {self.rms:.3g}{gradient}"

    __repr__ = __str__

    @property
    def capacity(self) -> int:
        """Largest rank that the samples can have here: their number, at most the units."""
        return min(self.samples, self.units)

    @property
    def rank_deficient(self) -> bool:
        """Whether the samples are linearly dependent here, to float64."""
        return self.isometry_gap == float("inf")

    @property
    def gap(self) -> float:
        """Orthogonality gap of the samples; nan if they were not measured."""
        return self._of_samples("gap")

    @property
    def isometry_gap(self) -> float:
        """Isometry gap of the samples; nan if they were not measured."""
        return self._of_samples("isometry_gap")

    @property
    def effective_rank(self) -> float:
        """Effective rank of the samples; nan if they were not measured."""
        return self._of_samples("effective_rank")

    @property
    def overlap(self) -> float:
        """Mean cosine of two samples; nan if they were not measured."""
        return self._of_samples("overlap")

    @property
    def mean_energy(self) -> float:
        """Share of the energy in the mean of the batch; nan if it was not measured."""
        return self._of_samples("mean_energy")

    def _of_samples(self, name: str) -> float:
        return float("nan") if self.sample_view is None else float(getattr(self.sample_view, name))


def layers_of(observer: Observer) -> list[Layer]:
    """Make the rows, in the order in which the modules were called."""
    calls = observer.calls
    observer.complete_factors()
    sample_views = representations([call.factor for call in calls])
    statuses = _statuses(observer, sample_views)
    token_views = _token_views(calls)
    depth = count(1)
    rows = []
    for index, call in enumerate(calls):
        measured = statuses[index] is Status.MEASURED
        rows.append(
            Layer(
                index=index,
                name=call.name,
                call=call.index,
                kind=class_name(call.module),
                depth=next(depth) if call.weighted else None,
                shape=call.shape,
                samples=len(call.factor),
                units=call.units,
                status=statuses[index],
                rms=float(call.factor.norm()) / (len(call.factor) * call.units) ** 0.5,
                sample_view=sample_views[index] if measured else None,
                token_view=token_views[index] if measured else None,
                gradient_norm=call.gradient_norm,
                weight_gradient_norm=_weight_gradient(observer, call),
                also=tuple(call.also),
                trainable=any(parameter.requires_grad for parameter in owned_parameters(call.module)),
                tokens=0 if call.token_factors is None else call.token_factors.shape[1],
                branch=call.branch,
                differentiable=call.differentiable,
            )
        )
    return rows


def input_layer(call: Call, observer: Observer) -> Layer:
    """Make a row of the batch itself, so that a degenerate batch is recognized as the cause."""
    tensor = next(tensors_in((call.args, call.kwargs)))
    # Token ids are labels without size: only their differences matter.
    values = tensor.detach().double() if not tensor.is_complex() else torch.view_as_real(tensor.detach()).double()
    reading = observer.samples.read(values, "the batch")
    assert reading is not None, "the batch counts its own samples"
    factor = sample_factor(observer.samples.compared(reading, observer.max_samples)).cpu()
    finite = bool(factor.isfinite().all())
    return Layer(
        index=-1,
        name="input",
        call=0,
        kind=str(tensor.dtype).removeprefix("torch."),
        depth=None,
        shape=reading.shape[: tensor.ndim],  # without the two parts of complex numbers
        samples=len(factor),
        units=reading.units,
        status=Status.MEASURED if finite else Status.NOT_FINITE,
        rms=float(factor.norm()) / (len(factor) * reading.units) ** 0.5,
        sample_view=representations([factor])[0],
        token_view=None,
        gradient_norm=None,
        weight_gradient_norm=None,
    )


def representations(factors: Sequence[Float[Tensor, "_ _"]]) -> list[Representation | None]:
    """Compute the metrics of each factor, None where it is zero, not finite, or a single sample.

    Factors of one size are stacked: one batched eigenvalue call for a hundred layers instead of a hundred calls.
    """
    results: list[Representation | None] = [None] * len(factors)
    for indices, stack in measurable_stacks(factors):
        for index, row in zip(indices, metrics_of_factors(stack).tolist(), strict=True):
            results[index] = Representation(*row)
    return results


def measurable_stacks(factors: Sequence[Float[Tensor, "_ _"]]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield stacks of factors of one size with their indices; without those that are zero, not finite, or one sample.

    A stack is at most a few megabytes, however many layers there are.
    """
    for indices, stack in _stacks(factors):
        sizes = largest_of(stack)
        measurable = (sizes > 0) & sizes.isfinite()
        if stack.shape[-1] > 1 and bool(measurable.any()):
            kept = indices if bool(measurable.all()) else [indices[i] for i in measurable.nonzero().flatten().tolist()]
            yield kept, stack if len(kept) == len(indices) else stack[measurable]


def _stacks(factors: Sequence[Float[Tensor, "_ _"]]) -> Iterator[tuple[list[int], Tensor]]:
    by_size: dict[int, list[int]] = {}
    for index, factor in enumerate(factors):
        by_size.setdefault(len(factor), []).append(index)
    for size, indices in by_size.items():
        most = max(1, _STACK_ELEMENTS // size**2)
        for start in range(0, len(indices), most):
            group = indices[start : start + most]
            yield group, torch.stack([factors[index] for index in group])


def largest_of(stack: Float[Tensor, "layers samples samples"]) -> Float[Tensor, "layers"]:
    """The largest size of an entry: 0 for a zero matrix, nan or infinite for one that is not finite."""
    return stack.abs().amax((-2, -1))


def _token_views(calls: Sequence[ModuleCall]) -> list[Representation | None]:
    """Metrics of the tokens within a sequence, averaged over the sequences that were compared and have a value."""
    stacks = [(index, call.token_factors) for index, call in enumerate(calls) if call.token_factors is not None]
    with_tokens = [(index, factor) for index, stack in stacks for factor in stack]
    grouped: list[list[list[float]]] = [[] for _ in calls]
    for (owner, _), view in zip(with_tokens, representations([factor for _, factor in with_tokens]), strict=True):
        if view is not None:
            grouped[owner].append(list(vars(view).values()))
    means = (torch.tensor(rows, dtype=torch.float64).nanmean(0).tolist() if rows else None for rows in grouped)
    return [None if mean is None else Representation(*mean) for mean in means]


def _statuses(observer: Observer, views: Sequence[Representation | None]) -> list[Status]:
    """The status of each call, in order: a zero or constant output is inherited from the call that produced it."""
    calls = observer.calls
    identical = [view is not None and 1 - view.mean_energy < _IDENTICAL for view in views]
    largest = [0.0] * len(calls)
    for indices, stack in _stacks([call.factor for call in calls]):
        for index, size in zip(indices, largest_of(stack).tolist(), strict=True):
            largest[index] = size
    zero = [size == 0 for size in largest]
    suspects = [index for index in range(len(calls)) if zero[index] or identical[index]]
    zero_weights = dict(zip(suspects, observer.zero_weights([calls[index] for index in suspects]), strict=True))
    statuses: list[Status] = []
    samples_were_lost = False
    for index, call in enumerate(calls):
        if not call.finite or not math.isfinite(largest[index]):
            status = Status.NOT_FINITE
        elif zero[index]:
            designed = zero_weights[index] or call.input_is_zero or _ends_zero_by_design(calls, statuses)
            status = Status.ZERO_BY_DESIGN if designed else Status.DEAD
        elif identical[index] and zero_weights[index]:
            status = Status.ZERO_BY_DESIGN  # only a bias gets through
        elif identical[index] and call.input_is_constant and not samples_were_lost:
            status = Status.CONSTANT  # equal rows out of equal rows, and no earlier layer made them equal
        else:
            status = Status.MEASURED
            samples_were_lost |= identical[index]
        statuses.append(status)
    return statuses


def _ends_zero_by_design(calls: Sequence[ModuleCall], statuses: Sequence[Status]) -> bool:
    """Whether the last call was inside the module of the next one and zero by design: its output comes from there."""
    if not statuses or statuses[-1] is not Status.ZERO_BY_DESIGN:
        return False
    return calls[len(statuses) - 1].name.startswith(f"{calls[len(statuses)].name}.")


def _weight_gradient(observer: Observer, call: ModuleCall) -> float | None:
    """Norm of the gradient over the module's matrices; None where none was required or none arrived."""
    norms = [
        observer.weight_gradients[id(parameter)]
        for parameter in owned_parameters(call.module)
        if parameter.ndim >= 2 and id(parameter) in observer.weight_gradients
    ]
    return sum(norm**2 for norm in norms) ** 0.5 if norms else None
