"""One forward and backward pass through any model, measured layer by layer; the model is left unchanged."""

import contextlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orthoscope.probe.batches import as_call
from orthoscope.probe.hooks import Observer, observable_modules, unwrapped
from orthoscope.probe.layers import Layer, input_layer, layers_of
from orthoscope.probe.losses import Loss, loss_value, own_loss, takes_target
from orthoscope.probe.restore import probing_mode, unguarded, untouched
from orthoscope.probe.samples import Call, WholeBatch, copied, tensors_in

_LINES = 30  # layers that a recording prints
_NEVER_CALLED = "never called: its parent uses it directly, or not at all"


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
    """

    input: Layer
    layers: tuple[Layer, ...]
    unobserved: Mapping[str, str]
    parameters: int
    samples: int
    gradient_source: str
    notes: tuple[str, ...]
    factors: tuple[Tensor, ...] = field(default=(), repr=False, compare=False)

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
    with (
        probing_mode(model, batch_statistics),
        contextlib.closing(observer),
        torch.enable_grad(),
        samples.batch_norm(),
    ):
        torch.manual_seed(seed)  # for models that draw noise; the caller's state is restored with the rest
        observer.attach(names)
        # The gradient of a frozen layer's output is only seen if the graph starts before it; else it need not.
        parameters = list(model.parameters())
        differentiable = not parameters or not all(parameter.requires_grad for parameter in parameters)
        device = samples.device or next((t.device for t in chain(parameters, model.buffers())), torch.device("cpu"))
        args, kwargs = copied((call.args, dict(call.kwargs)), device, differentiable)
        output = model(*args, **kwargs)
        samples.synchronize("forward pass")
        observer.backward = True
        source = _backward(observer, output, call, loss, seed)
        with unguarded():
            observer.collect_gradients(model)
            return Recording(
                input=input_layer(call, observer),
                layers=tuple(layers_of(observer)),
                unobserved=_unobserved(observer, names),
                parameters=sum(parameter.numel() for parameter in parameters),
                samples=samples.total,
                gradient_source=source,
                notes=tuple(notes),
                factors=tuple(one.factor for one in observer.calls) if keep_factors else (),
            )


def _backward(observer: Observer, output: Any, call: Call, loss: Loss | None, seed: int) -> str:
    """Differentiate the loss, or a random direction at the output, and return which in words.

    A head whose weight is zero at initialization passes no gradient on; then a second time, from the head's input.
    """
    samples = observer.samples
    generator = torch.Generator().manual_seed(seed)
    tensor: Tensor | None
    if loss is None and (own := own_loss(output)) is not None:
        reading, tensor, source = None, own, "the model's own loss"
    elif loss is None:
        reading = samples.read(output, "the model's output")
        floating = (t for t in tensors_in(output) if t.is_floating_point())
        tensor = next(floating, None) if reading is None else reading.tensor
        source = "a random unit direction at the output"
    else:
        reading, tensor, source = None, loss_value(loss, output, call.target), "the loss"
        samples.synchronize("the loss")
    if tensor is None or not tensor.requires_grad:
        return ""
    head_is_zero = observer.latest is not None and observer.zero_weights([observer.latest[0]])[0]
    _differentiate(tensor, samples.direction(tensor, reading, generator), retain_graph=head_is_zero)
    head_input = observer.blocked_head_input() if head_is_zero else None
    if head_input is None:
        return source
    reading = samples.read(head_input, "the input of the head")
    _differentiate(head_input, samples.direction(head_input, reading, generator.manual_seed(seed)))
    return "a random unit direction at the input of the head, whose weight is zero by design"


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


def _unobserved(observer: Observer, names: Mapping[str, nn.Module]) -> dict[str, str]:
    """Every module without a row, with the reason."""
    seen = {name for call in observer.calls for name in (call.name, *call.also)}
    missing = {}
    for name, module in names.items():
        if name in seen or (not name and not observer.unusable.get(name)):
            continue
        scripted = "a scripted module takes no hooks" if isinstance(module, torch.jit.ScriptModule) else ""
        missing[name] = observer.unusable.get(name) or scripted or _NEVER_CALLED
    return missing
