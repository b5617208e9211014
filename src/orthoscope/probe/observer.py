"""The hooks: what is taken from each module call while it happens. Small reductions only, never an activation."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from orthoscope.linalg import sample_frame
from orthoscope.probe.batches import tensors_in
from orthoscope.probe.names import is_weight_layer, owned_parameters
from orthoscope.probe.views import CHANNELS_FIRST, differs_over_samples, sample_view, spread, token_view

_SEQUENCES, _TOKENS = 4, 64  # what the token view looks at, evenly spaced

# Distance of the second sample from the first, relative, below which all may be equal and the input is looked at.
_EQUAL = 1e-6


@dataclass(eq=False)  # one call is not another, whatever it holds
class Observed:
    """What a module call left behind: small frames of its output, and the norm of its gradient."""

    name: str
    call: int
    module: nn.Module
    shape: tuple[int, ...]
    units: int
    weighted: bool  # multiplies by a matrix of its own
    frame: Tensor
    token_frames: Tensor | None
    channels_first: bool  # (samples, channels, positions): its second dimension is no sequence
    finite: bool
    input_is_constant: bool  # the input's rows are equal; only looked at when the output's may be
    input_is_zero: bool
    gradient: float | None = None
    also: list[str] = field(default_factory=list)

    @property
    def zero_weight(self) -> bool:
        """Whether what multiplies the output is zero, so that nothing of the input gets through."""
        return any(not bool(p.detach().any()) for p in _scales(self.module, self.weighted))


class Observer:
    """Collects one forward and one backward pass. Forward hooks measure outputs, tensor hooks their gradients."""

    def __init__(self, samples: int, max_samples: int, progress: Callable[[str], None] | None = None) -> None:
        self.samples = samples
        self.rows = spread(samples, max_samples)
        self.progress = progress
        self.observed: list[Observed] = []
        self.unusable: dict[str, str] = {}  # called, but what came out cannot be read as samples
        self.latest: tuple[Observed, Tensor] | None = None  # of the layers with a weight, with its input
        self.weight_gradients: dict[int, float] = {}  # norms, by id of the parameter
        self.backward = False
        self._calls: dict[str, int] = {}
        self._recomputed: dict[str, int] = {}
        self._last_seen: dict[int, tuple[weakref.ref[Tensor], int, Observed]] = {}
        self._handles: list[RemovableHandle] = []

    def attach(self, names: Mapping[str, nn.Module]) -> None:
        """Put a hook on every module that takes one."""
        for name, module in names.items():
            if not isinstance(module, torch.jit.ScriptModule):
                self._handles.append(module.register_forward_hook(self.forward_hook(name), with_kwargs=True))

    def close(self) -> None:
        """Take every hook off, tensors' included, and let go of the graph: hooks and graph hold each other."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._last_seen.clear()
        self.latest = None

    def forward_hook(self, name: str) -> Callable[..., Tensor | None]:
        """A hook for one module, to be registered `with_kwargs=True`."""

        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Tensor | None:
            if self.backward:
                self._recompute(name, output)
                return None
            replaced = _start_of_graph((args, kwargs), output)
            self._observe(name, module, (args, kwargs), output if replaced is None else replaced)
            return replaced

        return hook

    def closed_head_input(self) -> Tensor | None:
        """What went into the last weight layer, if its weight is zero and no gradient came past it."""
        if self.latest is None or not self.latest[0].zero_weight:
            return None
        entry, head_input = self.latest
        passed = any(other.gradient for other in self.observed[: self.observed.index(entry)])
        return None if passed else head_input

    def take_weight_gradients(self, model: nn.Module) -> None:
        """Keep the norms of what the backward pass left in `.grad`."""
        for parameter in model.parameters():
            if parameter.grad is not None:
                self.weight_gradients[id(parameter)] = _norm(parameter.grad)

    def _observe(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        tensor = main_tensor(output, self.samples)
        if tensor is None:
            self.unusable[name] = _why_unusable(output, self.samples)
            return
        same = self._same_as_before(tensor)
        if same is not None:
            same.also.append(name)
            return
        call = self._calls.get(name, 0)
        self._calls[name] = call + 1
        # No autocast: it leaves float64 alone, and that is all that is computed with here.
        with torch.no_grad():
            entry = self._measure(name, call, module, inputs, tensor.detach())
        self.observed.append(entry)
        # The version tells `relu_(x)` from `x`: one tensor object, two representations.
        self._last_seen[id(tensor)] = (weakref.ref(tensor), _version(tensor), entry)
        self._follow_gradient(tensor, entry)
        if entry.weighted:
            differentiable = next((t for t in tensors_in(inputs) if t.requires_grad), None)
            self.latest = None if differentiable is None else (entry, differentiable)
        if self.progress is not None:
            self.progress(name)

    def _measure(self, name: str, call: int, module: nn.Module, inputs: Any, tensor: Tensor) -> Observed:
        hidden = sample_view(tensor, self.samples)
        assert hidden is not None, "main_tensor only returns tensors with a sample view"
        channels_first = tensor.ndim == 3 and self._has_channels_first(module, inputs)
        sequences = None if channels_first else token_view(tensor, self.samples)
        if sequences is not None:
            tokens = spread(sequences.shape[1], _TOKENS)
            sequences = sample_frame(sequences[spread(self.samples, _SEQUENCES)][:, tokens])
        frame = sample_frame(hidden[self.rows])
        suspect = frame.shape[0] < 2 or not float(frame[1, 1].abs()) > _EQUAL * float(frame[0, 0].abs())
        first = next(tensors_in(inputs), None) if suspect else None
        return Observed(
            name=name,
            call=call,
            module=module,
            shape=tuple(tensor.shape),
            units=hidden.shape[1],
            weighted=is_weight_layer(module),
            # Small, and on the CPU: parts of a model may live on different devices.
            frame=frame.cpu(),
            token_frames=None if sequences is None else sequences.cpu(),
            channels_first=channels_first,
            finite=_is_finite(tensor),
            input_is_constant=suspect and (first is None or not differs_over_samples(first.detach(), self.samples)),
            input_is_zero=first is not None and not bool(first.detach().any()),
        )

    def _has_channels_first(self, module: nn.Module, inputs: Any) -> bool:
        """By its type, or because it has no parameters and its input had: an activation after a convolution."""
        if isinstance(module, CHANNELS_FIRST):
            return True
        if next(module.parameters(), None) is not None:
            return False
        seen = (self._last_seen.get(id(tensor)) for tensor in tensors_in(inputs))
        return any(known is not None and known[0]() is not None and known[2].channels_first for known in seen)

    def _same_as_before(self, tensor: Tensor) -> Observed | None:
        """The row of a tensor that a child already returned: containers, identities, dropout that is off."""
        reference, version, entry = self._last_seen.get(id(tensor), (None, -1, None))
        unchanged = reference is not None and reference() is tensor and version == _version(tensor)
        return entry if unchanged else None

    def _follow_gradient(self, tensor: Tensor, entry: Observed) -> None:
        if tensor.requires_grad and torch.is_grad_enabled():
            # A hook on the tensor, not on the module: module hooks refuse in-place operations.
            self._handles.append(tensor.register_hook(lambda gradient: self._gradient(entry, gradient)))

    def _gradient(self, entry: Observed, gradient: Tensor) -> None:
        entry.gradient = _norm(gradient)
        if self.progress is not None:
            self.progress(entry.name)

    def _recompute(self, name: str, output: Any) -> None:
        """Checkpointing runs modules again on the way back: measured already, but re-entrant
        checkpointing had no gradient graph the first time, so gradients are followed now."""
        call = self._recomputed.get(name, 0)
        self._recomputed[name] = call + 1
        tensor = main_tensor(output, self.samples)
        known = [entry for entry in self.observed if entry.name == name]
        # Called several times, segments are rerun in another order: which call this is, nobody can say.
        if tensor is not None and len(known) == 1 and call == 0 and known[0].gradient is None:
            self._follow_gradient(tensor, known[0])


def _start_of_graph(inputs: Any, output: Any) -> Tensor | None:
    """A frozen embedding's output as the start of a gradient graph, so that what follows it can be followed.

    Token ids have no gradient; with the embedding frozen nothing else would start one. The same values,
    and no leaf, so that in-place operations on it stay allowed.
    """
    starts = isinstance(output, Tensor) and output.is_floating_point() and not output.requires_grad
    if not starts or not torch.is_grad_enabled() or any(t.is_floating_point() for t in tensors_in(inputs)):
        return None
    return output.detach().requires_grad_().clone()


def main_tensor(output: Any, samples: int) -> Tensor | None:
    """The tensor that stands for an output: the first floating one with a dimension that counts the samples."""
    return next((t for t in tensors_in(output) if sample_view(t, samples) is not None), None)


def _why_unusable(output: Any, samples: int) -> str:
    shapes = [tuple(t.shape) for t in tensors_in(output)]
    if not shapes:
        return f"its output, {type(output).__name__}, holds no tensor"
    return f"no floating output of its shapes {shapes} has a dimension of {samples} samples"


def _scales(module: nn.Module, weighted: bool) -> list[nn.Parameter]:
    """Parameters that multiply the output: matrices, and a normalisation's or layer-scale's vector, not biases."""
    owned = list(owned_parameters(module))
    matrices = [p for p in owned if p.ndim >= 2] if weighted else []
    bias = getattr(module, "bias", None)
    return matrices or [p for p in owned if p is not bias]


def _norm(gradient: Tensor) -> float:
    """Frobenius norm; in float64 outside a safe range, for in float32 the square of 1e-23 is 0 and of 1e20 infinite."""
    gradient = getattr(gradient, "full_tensor", lambda: gradient)()  # a sharded DTensor's norm is of the whole
    gradient = gradient.detach()
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    quick = float(torch.linalg.vector_norm(gradient))
    if 1e-9 < quick < 1e15 and gradient.element_size() >= 4:
        return quick
    if quick == 0 and not bool(gradient.any()):
        return 0.0
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(gradient.cpu().to(wide)))


def _is_finite(tensor: Tensor) -> bool:
    """All entries, not only those of the samples compared. A finite sum proves it in one cheap pass."""
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _version(tensor: Tensor) -> int:
    """How often the tensor was changed in place; tensors of inference mode do not count."""
    return -1 if tensor.is_inference() else tensor._version
