"""One forward and backward pass through any model, measured layer by layer; the model is left unchanged."""

import contextlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orthoscope.probe.attention import AttentionCall
from orthoscope.probe.batches import as_call
from orthoscope.probe.experts import ExpertLoad, unused_experts
from orthoscope.probe.gates import behind_gates, closed_from, opened, worth_opening
from orthoscope.probe.hooks import Observer, observable_modules, unwrapped
from orthoscope.probe.initial_loss import InitialLoss, initial_loss
from orthoscope.probe.layers import Layer, input_layer, layers_of
from orthoscope.probe.losses import Loss, loss_value, own_loss, takes_target
from orthoscope.probe.parameters import ParameterTable, floating_parameters, parameter_table
from orthoscope.probe.recurrence import TimeProfile
from orthoscope.probe.restore import attributes_kept, probing_mode, unguarded, untouched
from orthoscope.probe.samples import Call, Reading, WholeBatch, copied, tensors_in
from orthoscope.probe.trunk import Trunk
from orthoscope.probe.unused import unused_modules

OWN_LOSS = "the model's own loss"
_LINES = 30  # layers that a recording prints
_NEVER_CALLED = "never called: its parent uses it directly, or not at all"
_NO_TOKEN = "no token of the batch was routed to this expert"


@dataclass(frozen=True)
class Recording:
    r"""The measurements of one pass.

    Attributes:
        input: The batch itself, as a row.
        layers: One row per module call, in order.
        unobserved: By module name, why it has no row.
        parameters: Number of parameters.
        samples: Samples in the whole batch.
        gradient_source: What was differentiated, in words; empty if nothing could be.
        notes: Remarks about the pass.
        factors: Triangular factors $F$, $FF^\top = HH^\top$, one per layer, if they were kept.
        attention: One row per attention, in order; like the rows below, none of a batch that is split over processes.
        trunk: The residual stream; None for a network with fewer than three residual sums.
        time: One row per recurrent layer or cell.
        experts: One row per mixture of experts.
        parameter_table: Weights and gradients of every parameter, at the start.
        initial_loss: The loss beside that of guessing; None without a loss, and for a batch split over processes.
        unused: Weight layers without a gradient on whose outputs the result does not depend: unused heads.
        behind_gates: Modules whose gradients start after the first step of zero-initialized gates.
        closed_from: Index of the call from which on samples are equal until that step; layers are measured after it.
    """

    input: Layer
    layers: tuple[Layer, ...]
    unobserved: Mapping[str, str]
    parameters: int
    samples: int
    gradient_source: str
    notes: tuple[str, ...]
    factors: tuple[Tensor, ...] = field(default=(), repr=False, compare=False)
    attention: tuple[AttentionCall, ...] = ()
    trunk: Trunk | None = None
    time: tuple[TimeProfile, ...] = ()
    experts: tuple[ExpertLoad, ...] = ()
    parameter_table: ParameterTable = field(default_factory=ParameterTable, repr=False)
    initial_loss: InitialLoss | None = None
    unused: frozenset[str] = frozenset()
    behind_gates: frozenset[str] = frozenset()
    closed_from: int | None = None

    def __str__(self) -> str:
        shown = [str(layer) for layer in self.layers]
        if len(shown) > _LINES:
            half = _LINES // 2
            shown = [*shown[:half], f"… {len(shown) - 2 * half} more", *shown[-half:]]
        source = f", gradient of {self.gradient_source}" if self.gradient_source else ""
        first = f"{len(self.layers)} module calls on {self.samples} samples, {self.parameters:,} parameters{source}"
        return "\n".join([first, *(f"  {line}" for line in shown)])

    __repr__ = __str__


def record(
    model: nn.Module,
    batch: Any,
    loss: Loss | None = None,
    *,
    max_samples: int = 64,
    batch_statistics: bool = True,
    seed: int = 0,
    keep_factors: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Recording:
    """Run a model on a batch once, forward and backward, and measure every module's output.

    Zero-initialized gates (the last scale of a residual block, LayerScale, an output layer) pass no gradient on before
    the first step. Where they hold gradients back, the gates take one step, the network runs once more, and the step is
    taken back; layers are measured then only if nothing passes the trunk of the network before that step. A
    trainable weight layer without a gradient is disturbed in one or a few more passes, to see whether anything uses it.

    The model is left bit-identical. A model under `DistributedDataParallel` or `fully_shard` is recorded by all of its
    processes together: each calls this with its part of the batch, of any size, and gets what one process would get
    with all parts one after another, in the order of the processes. Give the outermost module, the one that is called
    in training. At every module call a process then sends, once, its share of the samples that are compared and
    gathers one triangle of `max_samples`² numbers from every process; gradients are summed once, as in training.

    Args:
        model: Any module.
        batch: What the model is called with: a tensor, a tuple, a dict, a graph, or a DataLoader, with or without a
            target (`probe.batches.as_call`).
        loss: `loss(output)`, or `loss(output, target)` if the batch brings a target; taken for a mean over samples.
            Without it the gradient is that of the loss that the model itself returns (`output.loss`), or else of a
            random direction of unit length in output space.
        max_samples: Metrics compare at most so many samples, evenly spaced; batch norm always sees the whole batch.
        batch_statistics: Whether batch norm uses the statistics of the batch, as in training, or its running ones.
        seed: Seed of the random direction, and of models that draw noise.
        keep_factors: Keep the triangular factor of every layer's samples, from which details can be computed later.
        progress: Called with the name of every module as it is measured.

    Returns:
        The recording.

    Raises:
        ValueError: If the model, the batch or the loss cannot be used; the message says why and what to do.

    Example:
        >>> recording = orthoscope.probe.record(orthoscope.models.MLP(depth=4, width=16), torch.randn(8, 16))
        >>> recording.layers[0].name
        'layers.0.linear'
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be an nn.Module, got {type(model).__name__}")
    if loss is not None and not callable(loss):
        raise ValueError(f"the loss must be a function of the output (and target), got {loss!r}")
    processes = _processes(model)
    model = unwrapped(model)
    with contextlib.nullcontext() if processes is None else processes.together():
        _require_values(model)
        with untouched(model), contextlib.nullcontext() if processes is None else processes.resharded(model):
            call = as_call(model, batch, with_target=takes_target(loss))
            samples = WholeBatch(call.samples) if processes is None else processes.split_batch(call.samples)
            observer = Observer(samples, max_samples, progress)
            return _record(model, call, loss, observer, batch_statistics, seed, keep_factors)


def _processes(model: nn.Module) -> Any:
    """Return the processes that the model's batch is split over, None if there is only this one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    from orthoscope.probe.distributed import processes_of

    return processes_of(model)


def _record(
    model: nn.Module,
    call: Call,
    loss: Loss | None,
    observer: Observer,
    batch_statistics: bool,
    seed: int,
    keep_factors: bool,
) -> Recording:
    names = dict(observable_modules(model))
    samples, notes = observer.samples, []
    if samples.total == 1 and batch_statistics:
        batch_statistics = False
        notes.append("one sample has no batch statistics: normalization used its running ones")
    one_pass = _Pass(model, call, loss, seed)
    with probing_mode(model, batch_statistics), torch.enable_grad(), samples.batch_norm():
        source, first_loss = one_pass.run(observer, names)
        with unguarded():
            table, layers = parameter_table(model, observer), tuple(layers_of(observer))
        closed, unused = None, frozenset[str]()
        if not samples.split:
            closed = closed_from(layers, table) if worth_opening(table) else None
            try:
                unused = one_pass.unused(names, layers)
                if worth_opening(table):
                    again = Observer(samples, observer.max_samples)
                    table, new_source = one_pass.opened(again, names if closed is not None else {}, table)
            except Exception as error:  # the user's network may raise anything, and the first pass has succeeded
                closed = None
                notes.append(f"not looked at a second time: the second pass fails ({type(error).__name__}: {error})")
            if closed is not None:
                observer, source = again, f"{new_source}, after one step of the zero-initialized gates"
        with unguarded():
            inside = observer.inside_rows
            return Recording(
                input=input_layer(call, observer),
                layers=tuple(layers_of(observer)) if closed is not None else layers,
                unobserved=_unobserved(observer, names, inside.experts),
                parameters=sum(parameter.numel() for parameter in model.parameters()),
                samples=samples.total,
                gradient_source=source,
                notes=tuple(notes),
                factors=tuple(one.factor for one in observer.calls) if keep_factors else (),
                attention=inside.attention,
                trunk=inside.trunk,
                time=inside.time,
                experts=inside.experts,
                parameter_table=table,
                initial_loss=first_loss,
                unused=unused,
                behind_gates=behind_gates(table),
                closed_from=closed,
            )


@dataclass(frozen=True)
class _Pass:
    """One pass of a model on a batch, the same every time."""

    model: nn.Module
    call: Call
    loss: Loss | None
    seed: int

    def forward(self, samples: Any) -> Any:
        """Run the model on a copy of the batch, with the same random numbers every time."""
        torch.manual_seed(self.seed)  # for models that draw noise; the caller's state is restored with the rest
        # The gradient of a frozen layer's output is only seen if the graph starts before it; else it need not.
        parameters = list(self.model.parameters())
        differentiable = not parameters or not all(parameter.requires_grad for parameter in parameters)
        device = samples.device or next(
            (t.device for t in chain(parameters, self.model.buffers())), torch.device("cpu")
        )
        args, kwargs = copied((self.call.args, dict(self.call.kwargs)), device, differentiable)
        return self.model(*args, **kwargs)

    def run(self, observer: Observer, names: Mapping[str, nn.Module]) -> tuple[str, InitialLoss | None]:
        """Run forward and backward, with the observer's hooks on the named modules.

        Returns what was differentiated, in words, and the loss beside that of guessing.
        """
        # With a batch that is split over processes there is one pass only, and FSDP keeps state in its attributes.
        kept = contextlib.nullcontext() if observer.samples.split else attributes_kept(self.model)
        with kept, contextlib.closing(observer):
            observer.attach(names)
            with observer.inside or contextlib.nullcontext():
                output = self.forward(observer.samples)
            observer.samples.synchronize("forward pass")
            if observer.inside is not None:
                observer.inside.end_forward()
            observer.backward = True
            found = _backward(observer, output, self.call, self.loss, self.seed)
            with unguarded():
                observer.collect_gradients(self.model)
        return found

    def opened(
        self, observer: Observer, names: Mapping[str, nn.Module], table: ParameterTable
    ) -> tuple[ParameterTable, str]:
        """Run again after one step of the gates: the table with the new gradients, and what was differentiated."""
        with opened(self.model, table):
            source, _ = self.run(observer, names)
        norms = observer.weight_gradients
        named = floating_parameters(self.model)
        return table.opened({name: norms[id(p)] for name, p in named if id(p) in norms}), source

    def unused(self, names: Mapping[str, nn.Module], layers: Sequence[Layer]) -> frozenset[str]:
        """Names of trainable weight layers without a gradient on whose outputs the result does not depend."""
        samples = WholeBatch(self.call.samples)
        reached = {one.name for one in layers if one.gradient_norm is not None or one.weight_gradient_norm is not None}
        cut = {one.name: names[one.name] for one in layers if one.depth is not None and one.trainable}

        def result() -> Tensor:
            with attributes_kept(self.model):
                tensor, *_ = _differentiated(samples, self.forward(samples), self.call, self.loss)
            return torch.zeros(()) if tensor is None else tensor

        cut = {name: module for name, module in cut.items() if name not in reached}
        return unused_modules(cut, result, torch.Generator().manual_seed(self.seed)) if reached else frozenset()


def _differentiated(
    samples: Any, output: Any, call: Call, loss: Loss | None
) -> tuple[Tensor | None, Reading | None, str]:
    """The tensor that is differentiated, how it is read, and what it is in words: a loss, or without one the output."""
    if loss is not None:
        return loss_value(loss, output, call.target), None, "the loss"
    if (own := own_loss(output)) is not None:
        return own, None, OWN_LOSS
    reading = samples.read(output, "the model's output")
    floating = (t for t in tensors_in(output) if t.is_floating_point())
    tensor = next(floating, None) if reading is None else reading.tensor
    return tensor, reading, "a random unit direction at the output"


def _backward(
    observer: Observer, output: Any, call: Call, loss: Loss | None, seed: int
) -> tuple[str, InitialLoss | None]:
    """Differentiate the loss, or a random direction at the output; return which in words, and the loss itself.

    A head whose weight is zero at initialization passes no gradient on; then a second time, from the head's input.
    """
    samples = observer.samples
    generator = torch.Generator().manual_seed(seed)
    tensor, reading, source = _differentiated(samples, output, call, loss)
    first_loss = None
    if loss is not None:
        samples.synchronize("the loss")
        if tensor is not None and not samples.split:
            first_loss = initial_loss(loss, output, call.target, float(tensor.detach()))
    if tensor is None or not tensor.requires_grad:
        return "", first_loss
    head = None if observer.latest is None else observer.latest[0]
    trainable = head is not None and any(scale.requires_grad for scale in head.scales)
    # Every process asks, also where the answer is known.
    head_is_zero = head is not None and observer.zero_weights([head])[0] and trainable
    _differentiate(tensor, samples.direction(tensor, reading, generator), retain_graph=head_is_zero)
    head_input = observer.blocked_head_input() if head_is_zero else None
    if head_input is None:
        return source, first_loss
    reading = samples.read(head_input, "the input of the head")
    _differentiate(head_input, samples.direction(head_input, reading, generator.manual_seed(seed)))
    return "a random unit direction at the input of the head, whose weight is zero by design", first_loss


def _differentiate(tensor: Tensor, direction: Tensor, retain_graph: bool = False) -> None:
    with warnings.catch_warnings():
        # Users see their own warnings when they train: not a second time here.
        warnings.simplefilter("ignore")
        torch.autograd.backward(tensor, direction, retain_graph=retain_graph)


def _require_values(model: nn.Module) -> None:
    for name, tensor in chain(model.named_parameters(), model.named_buffers()):
        if is_lazy(tensor):
            raise ValueError(f"{name} is not initialized yet: run the lazy model once on a batch, then diagnose it")
        if tensor.is_meta:
            raise ValueError(f"{name} is on the meta device and has no values: materialize the model, then diagnose it")


def _unobserved(observer: Observer, names: Mapping[str, nn.Module], experts: Sequence[ExpertLoad]) -> dict[str, str]:
    """Every module without a row, with the reason."""
    idle = tuple(name for load in experts for name in unused_experts(load, names))
    seen = {name for call in observer.calls for name in (call.name, *call.also)}
    missing = {}
    for name, module in names.items():
        if name in seen or (not name and not observer.unusable.get(name)):
            continue
        scripted = "a scripted module takes no hooks" if isinstance(module, torch.jit.ScriptModule) else ""
        unused = _NO_TOKEN if name.startswith(idle) else ""
        missing[name] = observer.unusable.get(name) or scripted or unused or _NEVER_CALLED
    return missing
