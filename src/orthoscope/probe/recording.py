"""One pass through any model, forward and backward, everything recorded, nothing changed."""

import contextlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from orthoscope.probe.batches import Call, as_call, copied, tensors_in
from orthoscope.probe.layer import Layer
from orthoscope.probe.names import observable_modules, unwrapped
from orthoscope.probe.observer import Observer, main_tensor
from orthoscope.probe.restoration import probing_mode, untouched
from orthoscope.probe.rows import input_layer, layers_of

Loss = Callable[..., Tensor]


@dataclass(frozen=True)
class Recording:
    """What one pass showed: a row for the input, rows for the layers, and what was not seen."""

    input: Layer
    layers: tuple[Layer, ...]
    unobserved: Mapping[str, str]  # module name -> why
    parameters: int
    samples: int
    gradient_source: str  # what was differentiated, in words; empty if nothing could be
    notes: tuple[str, ...]


def record(
    model: nn.Module,
    batch: Any,
    loss: Loss | None = None,
    *,
    max_samples: int = 64,
    batch_statistics: bool = True,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Recording:
    """Run `model` on `batch` once, forward and backward, and measure every module's output on the way.

    The gradient is that of `loss(output)` (`loss(output, target)` when the batch brings a target), or
    of a random direction of unit length in output space. Metrics are over at most `max_samples`
    samples, evenly spaced; batch norm always sees the whole batch. The model is left bit-identical.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be an nn.Module, got {type(model).__name__}")
    if loss is not None and not callable(loss):
        raise ValueError(f"the loss must be a function of the output (and target), got {loss!r}")
    model = unwrapped(model)
    call = as_call(model, batch, with_target=loss is not None)
    names = dict(observable_modules(model))
    _refuse_without_values(model)
    observer = Observer(call.samples, max_samples, progress)
    notes = []
    if call.samples == 1 and batch_statistics:
        batch_statistics = False
        notes.append("one sample has no batch statistics: normalisation used its running ones")
    with untouched(model), probing_mode(model, batch_statistics), contextlib.closing(observer), torch.enable_grad():
        torch.manual_seed(seed)  # for models that draw noise; the user's state comes back with the rest
        observer.attach(names)
        # Frozen layers only show a gradient if the graph starts before them; otherwise it need not, and costs.
        wanted = [parameter.requires_grad for parameter in model.parameters()]
        args, kwargs = copied((call.args, dict(call.kwargs)), _device(model), not wanted or not all(wanted))
        output = model(*args, **kwargs)
        observer.backward = True
        source = _backward(observer, output, call, loss, seed)
        observer.take_weight_gradients(model)
        return Recording(
            input=input_layer(call, max_samples),
            layers=tuple(layers_of(observer)),
            unobserved=_unobserved(observer, names),
            parameters=sum(p.numel() for p in model.parameters()),
            samples=call.samples,
            gradient_source=source,
            notes=tuple(notes),
        )


def _backward(observer: Observer, output: Any, call: Call, loss: Loss | None, seed: int) -> str:
    """Differentiate, and say what: the loss, or a random direction at the output.

    A head whose weight starts at zero lets nothing through; then once more, from what went into it.
    """
    floating = (t for t in tensors_in(output) if t.is_floating_point())
    tensor = main_tensor(output, observer.samples)
    tensor = next(floating, None) if tensor is None else tensor
    source = "a random unit direction at the output"
    if loss is not None:
        tensor, source = _loss_value(loss, output, call.target), "the loss"
    if tensor is None or not tensor.requires_grad:
        return ""
    may_be_closed = observer.latest is not None and observer.latest[0].zero_weight
    _differentiate(tensor, seed, retain_graph=may_be_closed)
    head_input = observer.closed_head_input() if may_be_closed else None
    if head_input is None:
        return source
    _differentiate(head_input, seed)
    return "a random unit direction at the input of the head, whose weight is zero by design"


def _differentiate(tensor: Tensor, seed: int, retain_graph: bool = False) -> None:
    with warnings.catch_warnings():
        # Users see their own warnings when they train; a probe that prints them once more is noise.
        warnings.simplefilter("ignore")
        torch.autograd.backward(tensor, _unit_direction(tensor, seed), retain_graph=retain_graph)


def _loss_value(loss: Loss, output: Any, target: Any) -> Tensor:
    if isinstance(target, Tensor):
        device = next((t.device for t in tensors_in(output)), target.device)
        target = target.to(device)
    value = loss(output) if target is None else loss(output, target)
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"the loss must be one number in a tensor, got {shape}: reduce it, for example by its mean")
    return value


def _unit_direction(tensor: Tensor, seed: int) -> Tensor:
    """Random, of length 1 over the whole batch; 1 for a single number. Drawn on the CPU: the same on every device."""
    if tensor.numel() == 1:
        return torch.ones_like(tensor)
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(tensor.shape, generator=generator)
    return (direction / direction.norm()).to(tensor)


def _device(model: nn.Module) -> torch.device:
    tensor = next((t for t in (*model.parameters(), *model.buffers())), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _refuse_without_values(model: nn.Module) -> None:
    for name, parameter in (*model.named_parameters(), *model.named_buffers()):
        if torch.nn.parameter.is_lazy(parameter):
            raise ValueError(f"{name} is not initialised yet: run the lazy model once on a batch, then diagnose it")
        if parameter.is_meta:
            raise ValueError(f"{name} is on the meta device and has no values: materialise the model, then diagnose it")


def _unobserved(observer: Observer, names: Mapping[str, nn.Module]) -> dict[str, str]:
    """Every module without a row, with the reason."""
    seen = {name for entry in observer.observed for name in (entry.name, *entry.also)}
    missing = {}
    for name, module in names.items():
        if name in seen or (not name and not observer.unusable.get(name)):
            continue
        scripted = "a scripted module takes no hooks" if isinstance(module, torch.jit.ScriptModule) else None
        missing[name] = (
            observer.unusable.get(name) or scripted or "never called: its parent uses it directly, or not at all"
        )
    return missing
