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
from orthoscope.probe.observer import Observer
from orthoscope.probe.ranks import Ranks
from orthoscope.probe.restoration import probing_mode, untouched
from orthoscope.probe.rows import input_layer, layers_of
from orthoscope.probe.sharded import ranks_of, resharded
from orthoscope.probe.views import Part, Reading, read
from orthoscope.probe.whole_batch_norm import WholeBatchNorm

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
    pictures: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Recording:
    """Run `model` on `batch` once, forward and backward, and measure every module's output on the way.

    The gradient is that of `loss(output)` (`loss(output, target)` when the batch brings a target), or
    of a random direction of unit length in output space. Metrics are over at most `max_samples`
    samples, evenly spaced; batch norm always sees the whole batch. The model is left bit-identical.
    With `pictures` every row also keeps a small spectrum, histogram and Gram matrix to be drawn.

    A model under `DistributedDataParallel` or `fully_shard` is recorded by all of its ranks together: each
    calls this with its part of the batch, of any size, and gets what one process would get with all parts
    one after another, in the order of the ranks. A loss is taken for a mean, and counts by its part's share
    of the samples. Give the outermost module, the one that is called in training.
    Every rank sends, once, its share of the rows that are compared, at every module call; gathers as many
    triangles of `max_samples`² numbers as there are ranks; and adds up its gradients once, as a step of
    training does.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be an nn.Module, got {type(model).__name__}")
    if loss is not None and not callable(loss):
        raise ValueError(f"the loss must be a function of the output (and target), got {loss!r}")
    ranks = ranks_of(model)
    model = unwrapped(model)
    with ranks.together():
        call = as_call(model, batch, with_target=loss is not None)
        _refuse_without_values(model)
        with untouched(model), resharded(model):
            observer = Observer(_part(call, ranks), max_samples, progress)
            return _record(model, call, loss, observer, batch_statistics, seed, pictures)


def _part(call: Call, ranks: Ranks) -> Part:
    """This rank's samples, once every rank has said how many it has."""
    counts = tuple(count for (count,) in ranks.agree("the batch", [call.samples]))
    if not any(counts):
        raise ranks.differ("the batch has no samples: give at least one, or eight for angles to tell anything")
    return Part(ranks, counts)


def _record(
    model: nn.Module,
    call: Call,
    loss: Loss | None,
    observer: Observer,
    batch_statistics: bool,
    seed: int,
    pictures: bool,
) -> Recording:
    names = dict(observable_modules(model))
    part, notes = observer.part, []
    if part.total == 1 and batch_statistics:
        batch_statistics = False
        notes.append("one sample has no batch statistics: normalisation used its running ones")
    whole_batch = contextlib.nullcontext() if part.ranks.alone else WholeBatchNorm(part.ranks)
    with probing_mode(model, batch_statistics), contextlib.closing(observer), torch.enable_grad(), whole_batch:
        torch.manual_seed(seed)  # for models that draw noise; the user's state comes back with the rest
        observer.attach(names)
        # Frozen layers only show a gradient if the graph starts before them; otherwise it need not, and costs.
        wanted = [parameter.requires_grad for parameter in model.parameters()]
        device = part.ranks.device or _device(model)
        args, kwargs = copied((call.args, dict(call.kwargs)), device, not wanted or not all(wanted))
        output = model(*args, **kwargs)
        observer.settle_weights()
        observer.backward = True
        source = _backward(observer, output, call, loss, seed)
        observer.settle_gradients(model)
        return Recording(
            input=input_layer(call, observer),
            layers=tuple(layers_of(observer, pictures)),
            unobserved=_unobserved(observer, names),
            parameters=sum(p.numel() for p in model.parameters()),
            samples=part.total,
            gradient_source=source,
            notes=tuple(notes),
        )


def _backward(observer: Observer, output: Any, call: Call, loss: Loss | None, seed: int) -> str:
    """Differentiate, and say what: the loss, or a random direction at the output.

    A head whose weight starts at zero lets nothing through; then once more, from what went into it.
    """
    part = observer.part
    if loss is None:
        reading = read(output, part, "the model's output")
        floating = (t for t in tensors_in(output) if t.is_floating_point())
        tensor = next(floating, None) if reading is None else reading.tensor
        source = "a random unit direction at the output"
    else:
        reading, tensor, source = None, _loss_value(loss, output, call.target), "the loss"
        part.ranks.agree("the loss")
    if tensor is None or not tensor.requires_grad:
        return ""
    may_be_closed = observer.latest is not None and observer.latest[0].zero_weight
    _differentiate(tensor, _direction(tensor, reading, part, seed), retain_graph=may_be_closed)
    head_input = observer.closed_head_input() if may_be_closed else None
    if head_input is None:
        return source
    reading = read(head_input, part, "the input of the head")
    _differentiate(head_input, _direction(head_input, reading, part, seed))
    return "a random unit direction at the input of the head, whose weight is zero by design"


def _differentiate(tensor: Tensor, direction: Tensor, retain_graph: bool = False) -> None:
    with warnings.catch_warnings():
        # Users see their own warnings when they train; a probe that prints them once more is noise.
        warnings.simplefilter("ignore")
        torch.autograd.backward(tensor, direction, retain_graph=retain_graph)


def _loss_value(loss: Loss, output: Any, target: Any) -> Tensor:
    if isinstance(target, Tensor):
        device = next((t.device for t in tensors_in(output)), target.device)
        target = target.to(device)
    value = loss(output) if target is None else loss(output, target)
    if not isinstance(value, Tensor) or value.numel() != 1:
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"the loss must be one number in a tensor, got {shape}: reduce it, for example by its mean")
    return value


def _direction(tensor: Tensor, reading: Reading | None, part: Part, seed: int) -> Tensor:
    """Random, of length 1 over the whole batch; 1 for a single number. Drawn on the CPU: the same on every device.

    A rank draws the whole and takes its part. What counts no samples, such as a loss, is a mean over a part,
    and goes by its share.
    """
    if tensor.numel() == 1 and (reading is None or part.total == 1):
        return torch.full_like(tensor, part.share)
    generator = torch.Generator().manual_seed(seed)
    shape = tensor.shape if reading is None else reading.shape
    direction = torch.randn(shape, generator=generator)
    length = float(torch.linalg.vector_norm(direction, dtype=torch.float64))
    mine = part.share * direction if reading is None else reading.narrowed(direction)
    # In the precision of the output if that is finer: ranks then agree to its rounding.
    return (mine.to(torch.promote_types(tensor.dtype, mine.dtype)) / length).to(tensor)


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
