"""The hooks: what is taken from each module call while it happens. Small reductions only, never an activation."""

import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from orthoscope.linalg import sample_frame
from orthoscope.probe.batches import tensors_in
from orthoscope.probe.names import is_weight_layer
from orthoscope.probe.norms import norm, weight_norms
from orthoscope.probe.observed import Observed
from orthoscope.probe.sharded import shard
from orthoscope.probe.views import CHANNELS_FIRST, Part, Reading, differs_over_samples, read, spread

_SEQUENCES, _TOKENS = 4, 64  # what the token view looks at, evenly spaced

# Distance of the second sample from the first, relative, below which all may be equal and the input is looked at.
_EQUAL = 1e-6


class Observer:
    """Collects one forward and one backward pass. Forward hooks measure outputs, tensor hooks their gradients."""

    def __init__(self, part: Part, max_samples: int, progress: Callable[[str], None] | None = None) -> None:
        self.part = part
        self.rows, self.row_counts = part.spread(max_samples), part.spread_counts(max_samples)
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
                if not self.part.ranks.alone and module._forward_pre_hooks:
                    self._follow_pre_hooks(module)
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
        return None if any(self.part.ranks.any([passed])) else head_input

    def settle_weights(self) -> None:
        """Find out with the other ranks, each of which may hold a shard, which weights are zero."""
        if self.part.ranks.alone:
            return
        self.part.ranks.agree("forward pass")
        owned = [(entry, parameter) for entry in self.observed for parameter in entry.scales]
        held = self.part.ranks.any([bool(shard(parameter.detach()).any()) for _, parameter in owned])
        zero = {id(entry) for (entry, _), values in zip(owned, held, strict=True) if not values}
        for entry in self.observed:
            entry.settled = id(entry) in zero

    def settle_gradients(self, model: nn.Module) -> None:
        """From each rank's part to the whole: norms of gradients at outputs, and of what is left in `.grad`."""
        ranks = self.part.ranks
        ranks.agree("backward pass")
        joined = ranks.norm([-1.0 if entry.gradient is None else entry.gradient for entry in self.observed])
        for entry, whole in zip(self.observed, joined, strict=True):
            entry.gradient = None if whole < 0 else whole
        parameters = list(model.parameters())
        wanted = ranks.any([parameter.grad is not None for parameter in parameters])
        parameters = [parameter for parameter, some in zip(parameters, wanted, strict=True) if some]
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        self.weight_gradients = dict(zip(map(id, parameters), weight_norms(gradients, ranks), strict=True))

    def _follow_pre_hooks(self, module: nn.Module) -> None:
        """Know a tensor again that a pre-hook passes on as a view, as those of FSDP do."""
        before: list[Tensor] = []

        def note(_: nn.Module, args: Any, kwargs: Any) -> None:
            before[:] = tensors_in((args, kwargs))

        def follow(_: nn.Module, args: Any, kwargs: Any) -> None:
            for old, new in zip(before, tensors_in((args, kwargs)), strict=False):
                same = self._same_as_before(old)
                if same is not None and new is not old and new.data_ptr() == old.data_ptr():
                    self._last_seen[id(new)] = (weakref.ref(new), _version(new), same)
            before.clear()

        self._handles.append(module.register_forward_pre_hook(note, prepend=True, with_kwargs=True))
        self._handles.append(module.register_forward_pre_hook(follow, with_kwargs=True))

    def _observe(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        reading = read(output, self.part, f"the output of {name or 'the model'}")
        if reading is None:
            self.unusable[name] = _why_unusable(output, self.part)
            return
        tensor = reading.tensor
        same = self._same_as_before(tensor)
        if same is not None:
            same.also.append(name)
            return
        call = self._calls.get(name, 0)
        self._calls[name] = call + 1
        # No autocast: it leaves float64 alone, and that is all that is computed with here.
        with torch.no_grad():
            entry = self._measure(name, call, module, inputs, replace(reading, tensor=tensor.detach()))
        self.observed.append(entry)
        # The version tells `relu_(x)` from `x`: one tensor object, two representations.
        self._last_seen[id(tensor)] = (weakref.ref(tensor), _version(tensor), entry)
        self._follow_gradient(tensor, entry)
        if entry.weighted:
            differentiable = next((t for t in tensors_in(inputs) if t.requires_grad), None)
            self.latest = None if differentiable is None else (entry, differentiable)
        if self.progress is not None:
            self.progress(name)

    def _measure(self, name: str, call: int, module: nn.Module, inputs: Any, reading: Reading) -> Observed:
        ranks, tensor = self.part.ranks, reading.tensor
        channels_first = tensor.ndim == 3 and self._has_channels_first(module, inputs)
        sequences = None if channels_first else reading.sequences
        frame = self.frame(reading)
        suspect = frame.shape[0] < 2 or not float(frame[1, 1].abs()) > _EQUAL * float(frame[0, 0].abs())
        first = next((t.detach() for t in tensors_in(inputs)), None) if suspect else None
        not_finite, input_is_there = ranks.any([not _is_finite(tensor), first is not None and bool(first.any())])
        return Observed(
            name=name,
            call=call,
            module=module,
            shape=reading.shape,
            part_shape=tuple(tensor.shape),
            units=reading.units,
            weighted=is_weight_layer(module),
            # Small, and on the CPU: parts of a model may live on different devices.
            frame=frame.cpu(),
            token_frames=None if sequences is None else self._token_frames(sequences).cpu(),
            channels_first=channels_first,
            finite=not not_finite,
            input_is_constant=suspect and not differs_over_samples(first, self.part),
            input_is_zero=first is not None and not input_is_there,
        )

    def frame(self, reading: Reading) -> Tensor:
        """The samples that are compared, wherever they are, in their own span."""
        return self.part.ranks.frame(reading.samples[self.rows], self.row_counts)

    def _token_frames(self, sequences: Tensor) -> Tensor:
        tokens = spread(sequences.shape[1], _TOKENS)
        frames = sample_frame(sequences[self.part.spread(_SEQUENCES)][:, tokens])
        return self.part.ranks.gather_rows(frames, self.part.spread_counts(_SEQUENCES))

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
        entry.gradient = norm(gradient)
        if self.progress is not None:
            self.progress(entry.name)

    def _recompute(self, name: str, output: Any) -> None:
        """Checkpointing runs modules again on the way back: measured already, but re-entrant
        checkpointing had no gradient graph the first time, so gradients are followed now."""
        call = self._recomputed.get(name, 0)
        self._recomputed[name] = call + 1
        known = [entry for entry in self.observed if entry.name == name]
        # Called several times, segments are rerun in another order: which call this is, nobody can say.
        if len(known) == 1 and call == 0 and known[0].gradient is None:
            tensor = next((t for t in tensors_in(output) if t.shape == known[0].part_shape), None)
            if tensor is not None:
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


def _why_unusable(output: Any, part: Part) -> str:
    shapes = [tuple(t.shape) for t in tensors_in(output)]
    if not shapes:
        return f"its output, {type(output).__name__}, holds no tensor"
    # Every rank gives the same reason, and shapes on ranks differ.
    of_shapes = f" of its shapes {shapes}" if part.ranks.alone else ""
    return f"no floating output{of_shapes} has a dimension of {part.total} samples"


def _is_finite(tensor: Tensor) -> bool:
    """All entries, not only those of the samples compared. A finite sum proves it in one cheap pass."""
    return bool(tensor.sum().isfinite()) or bool(tensor.isfinite().all())


def _version(tensor: Tensor) -> int:
    """How often the tensor was changed in place; tensors of inference mode do not count."""
    return -1 if tensor.is_inference() else tensor._version
