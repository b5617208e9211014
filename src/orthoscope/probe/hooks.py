"""The modules of a model under its wrappers, and the hooks that reduce each of their calls to a few small tensors.

No activation is kept: an output is reduced inside the forward hook, because a stored tensor may be overwritten in place
later. Gradients are followed by hooks on tensors, because module backward hooks refuse in-place operations.
"""

import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced_with
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList, type_before_parametrizations
from torch.utils.hooks import RemovableHandle

from orthoscope.linalg.gram_factor import BLOCK_ELEMENTS, NARROW
from orthoscope.probe.inside import Inside, InsideRows
from orthoscope.probe.restore import unguarded
from orthoscope.probe.samples import CHANNELS_FIRST, Reading, WholeBatch, is_zero, norm, sample_factor, tensors_in

if TYPE_CHECKING:
    from orthoscope.probe.distributed import SplitBatch

# Relative distance of the second sample from the first below which all samples may be equal.
_EQUAL = 1e-6


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside `torch.compile`, `DataParallel` and `DistributedDataParallel`."""
    *_, innermost = wrappers(model)
    return innermost


def wrappers(model: nn.Module) -> Iterator[nn.Module]:
    """Yield a model, the module that it wraps, and so on down to the module that the user built."""
    inner: object = model
    while isinstance(inner, nn.Module):
        yield inner
        wraps = isinstance(inner, (nn.DataParallel, nn.parallel.DistributedDataParallel))
        inner = inner.module if wraps else getattr(inner, "_orig_mod", None)


def observable_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield every module with its name, the root as "", without compiled wrappers and parametrizations.

    A parametrization maps weights to weights: what it returns is not a representation.
    """
    for name, module in model.named_modules():
        parts = name.split(".")
        if "parametrizations" in parts or isinstance(module, ParametrizationList):
            continue
        if isinstance(getattr(module, "_orig_mod", None), nn.Module):
            continue
        yield ".".join(part for part in parts if part != "_orig_mod"), module


def owned_parameters(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters of the module itself, not of its children; those behind a parametrization included."""
    # Not `parameters(recurse=False)`, which walks the module tree: this runs at every module call.
    yield from (parameter for parameter in module._parameters.values() if parameter is not None)
    parametrizations = module._modules.get("parametrizations")
    if parametrizations is not None:
        yield from parametrizations.parameters()


def is_weight_layer(module: nn.Module) -> bool:
    """True if the module multiplies by a matrix of its own: the layers in which depth is counted."""
    if isinstance(module, (nn.Embedding, nn.EmbeddingBag)):
        return False
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return True
    # A container may own a matrix that multiplies nothing, such as the position embedding of a vision transformer.
    has_children = any(child is not None and name != "parametrizations" for name, child in module._modules.items())
    return not has_children and any(parameter.ndim >= 2 for parameter in owned_parameters(module))


def class_name(module: nn.Module) -> str:
    """Return the name of the class that the user wrote, under what parametrizations and FSDP put in its place."""
    kind = type_before_parametrizations(module)
    # `torch.distributed.fsdp` takes a second to import: without it no module is one of its kind.
    sharded = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", ())
    return next(base for base in kind.__mro__ if not issubclass(base, sharded)).__name__


@dataclass(eq=False)  # compared by identity
class ModuleCall:
    """What is kept of one module call: triangular factors of its output, a gradient norm, and a few facts."""

    name: str
    index: int  # 0 for the first call of this module in the pass
    module: nn.Module
    shape: tuple[int, ...]  # of the output for the whole batch
    local_shape: tuple[int, ...]  # of the output in this process
    units: int
    weighted: bool  # multiplies by a matrix of its own
    token_factors: Tensor | None
    channels_first: bool  # (samples, channels, positions): the second dimension is not a sequence
    finite: bool  # of the samples that are not compared; of the others, the factor shows it
    input_is_constant: bool  # the rows of the input are equal; only checked if those of the output may be
    input_is_zero: bool
    differentiable: bool = False  # the output requires a gradient
    factor: Tensor = field(default_factory=lambda: torch.empty(0, 0))  # F with FFᵀ = HHᵀ for the compared samples
    gradient_norm: float | None = None
    also: list[str] = field(default_factory=list)  # modules that returned the very same tensor
    branch: bool = False  # inside a residual branch

    @property
    def scales(self) -> list[nn.Parameter]:
        """Parameters that multiply the output: matrices, or the vector of a normalization or LayerScale; no biases."""
        owned = list(owned_parameters(self.module))
        matrices = [p for p in owned if p.ndim >= 2] if self.weighted else []
        bias = getattr(self.module, "bias", None)
        return matrices or [p for p in owned if p is not bias]


class Observer:
    """Collects one forward and one backward pass: forward hooks measure outputs, tensor hooks their gradients."""

    def __init__(
        self, samples: "WholeBatch | SplitBatch", max_samples: int, progress: Callable[[str], None] | None = None
    ) -> None:
        self.samples = samples
        self.max_samples = max_samples
        self.progress = progress
        self.calls: list[ModuleCall] = []
        self.unusable: dict[str, str] = {}  # modules that were called, but whose output holds no samples
        self.latest: tuple[ModuleCall, Tensor] | None = None  # the last weight layer that was called, with its input
        self.weight_gradients: dict[int, float] = {}  # norms, by id of the parameter
        self.gradient_sums: dict[int, float] = {}  # of absolute values
        self.backward = False
        # Of a batch that is split over processes only modules are measured.
        self.inside = None if samples.split else Inside()
        self.inside_rows = InsideRows()
        self._counts: dict[str, int] = {}
        self._recomputed: dict[str, int] = {}
        self._last_seen: dict[int, tuple[weakref.ref[Tensor], int, ModuleCall]] = {}
        self._narrow: dict[tuple[Any, ...], list[tuple[ModuleCall, Tensor]]] = {}  # rows that wait for others, by shape
        self._handles: list[RemovableHandle] = []

    def attach(self, names: Mapping[str, nn.Module]) -> None:
        """Put a hook on every module that takes one."""
        if self.inside is not None:
            self.inside.attach(names)
        for name, module in names.items():
            if not isinstance(module, torch.jit.ScriptModule):
                if self.samples.split and module._forward_pre_hooks:
                    self._follow_pre_hooks(module)
                self._handles.append(module.register_forward_hook(self.forward_hook(name), with_kwargs=True))

    def close(self) -> None:
        """Remove every hook, those of tensors included, and release the autograd graph that they hold."""
        for handle in self._handles:
            handle.remove()
        if self.inside is not None:
            self.inside.close()
        self._handles.clear()
        self._last_seen.clear()
        self.latest = None

    def forward_hook(self, name: str) -> Callable[..., Tensor | None]:
        """Make the hook of one module, to be registered `with_kwargs=True`."""

        def hook(module: nn.Module, args: Any, kwargs: Any, output: Any) -> Tensor | None:
            if self.backward:
                self._recompute(name, output)
                return None
            replacement = _start_of_graph((args, kwargs), output)
            with unguarded(), Inside.paused():
                self._observe(name, module, (args, kwargs), output if replacement is None else replacement)
            return replacement

        return hook

    def zero_weights(self, calls: list[ModuleCall]) -> list[bool]:
        """For each call, whether a parameter that multiplies its output is zero everywhere."""
        owners = [(position, scale) for position, call in enumerate(calls) for scale in call.scales]
        zero = [False] * len(calls)
        for (position, _), found in zip(owners, self.samples.zero_parameters([s for _, s in owners]), strict=True):
            zero[position] |= found
        return zero

    def blocked_head_input(self) -> Tensor | None:
        """Return the input of the last weight layer if no gradient passed it because its weight is zero."""
        if self.latest is None:
            return None
        head, head_input = self.latest
        passed = any(call.gradient_norm for call in self.calls[: self.calls.index(head)])
        return None if self.samples.any(passed)[0] else head_input

    def collect_gradients(self, model: nn.Module) -> None:
        """Complete the gradient norms after the backward pass: at outputs, and of the parameters."""
        self.samples.synchronize("backward pass")
        for call, total in zip(
            self.calls, self.samples.total_norms([c.gradient_norm for c in self.calls]), strict=True
        ):
            call.gradient_norm = total
        sizes = self.samples.gradient_sizes(list(model.parameters()))
        self.weight_gradients = {key: size for key, (size, _) in sizes.items()}
        self.gradient_sums = {key: total for key, (_, total) in sizes.items()}
        if self.inside is not None:
            self.inside_rows = self.inside.rows(self.calls)

    def _follow_pre_hooks(self, module: nn.Module) -> None:
        """Recognize a tensor that a pre-hook passes on as a view of itself, as those of FSDP do."""
        before: list[Tensor] = []

        def note(_: nn.Module, args: Any, kwargs: Any) -> None:
            before[:] = tensors_in((args, kwargs))

        def follow(_: nn.Module, args: Any, kwargs: Any) -> None:
            for old, new in zip(before, tensors_in((args, kwargs)), strict=False):
                same = self._same_as_before(old)
                if same is not None and new is not old and new.data_ptr() == old.data_ptr():
                    self._last_seen[id(new)] = (weakref.ref(new), version(new), same)
            before.clear()

        self._handles.append(module.register_forward_pre_hook(note, prepend=True, with_kwargs=True))
        self._handles.append(module.register_forward_pre_hook(follow, with_kwargs=True))

    def _observe(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        reading = self.samples.read(output, f"the output of {name or 'the model'}")
        if reading is None:
            self.unusable[name] = _why_unusable(output, self.samples)
            return
        tensor = reading.tensor
        same = self._same_as_before(tensor)
        if same is not None:
            same.also.append(name)
            return
        index = self._counts.get(name, 0)
        self._counts[name] = index + 1
        with torch.no_grad():
            call = self._measure(name, index, module, inputs, replaced_with(reading, tensor=tensor.detach()))
        call.differentiable = tensor.requires_grad
        self.calls.append(call)
        if self.inside is not None:
            self.inside.trunk.output(call, tensor)
        # The version distinguishes `relu_(x)` from `x`: one tensor object, two representations.
        self._last_seen[id(tensor)] = (weakref.ref(tensor), version(tensor), call)
        self._follow_gradient(tensor, call)
        if call.weighted:
            differentiable = next((t for t in tensors_in(inputs) if t.requires_grad), None)
            self.latest = None if differentiable is None else (call, differentiable)
        if self.progress is not None:
            self.progress(name)

    def _measure(self, name: str, index: int, module: nn.Module, inputs: Any, reading: Reading) -> ModuleCall:
        tensor = reading.tensor
        channels_first = tensor.ndim == 3 and self._has_channels_first(module, inputs)
        sequences = None if channels_first else reading.sequences
        rows = self.samples.compared(reading, self.max_samples)
        equal_outputs = _may_be_equal(rows)
        first = next((t.detach() for t in tensors_in(inputs)), None) if equal_outputs else None
        # Of compared samples the factor shows it. A finite sum proves in one cheap pass that all entries are finite.
        finite = reading.total <= self.max_samples or bool(tensor.sum().isfinite() or tensor.isfinite().all())
        is_there = first is not None and not (is_zero(first) or _is_padding(module, first))
        not_finite, input_is_there = self.samples.any(not finite, is_there)
        call = ModuleCall(
            name=name,
            index=index,
            module=module,
            shape=reading.shape,
            local_shape=tuple(tensor.shape),
            units=reading.units,
            weighted=is_weight_layer(module),
            token_factors=None if sequences is None else self.samples.token_factors(sequences).cpu(),
            channels_first=channels_first,
            finite=not not_finite,
            input_is_constant=equal_outputs and not self.samples.differ(first),
            input_is_zero=first is not None and not input_is_there,
        )
        self._factorize(call, rows)
        return call

    def _factorize(self, call: ModuleCall, rows: Tensor) -> None:
        """Reduce wide rows to their triangular factor now; copy narrow ones, and reduce them in stacks of one shape."""
        if rows.shape[-1] > NARROW * len(rows):
            call.factor = sample_factor(rows).cpu()
            return
        key = (rows.shape, rows.dtype, rows.device)
        waiting = self._narrow.setdefault(key, [])
        waiting.append((call, rows.clone()))
        if len(waiting) * rows.numel() >= BLOCK_ELEMENTS:
            self._factorize_stack(self._narrow.pop(key))

    def _factorize_stack(self, waiting: Sequence[tuple[ModuleCall, Tensor]]) -> None:
        # On the CPU, where they are small: parts of a model may be on different devices.
        factors = sample_factor(torch.stack([rows for _, rows in waiting])).cpu()
        for (call, _), factor in zip(waiting, factors, strict=True):
            call.factor = factor

    def complete_factors(self) -> None:
        """Reduce what still waits for others of its shape: after it, every call has its factor."""
        for waiting in self._narrow.values():
            self._factorize_stack(waiting)
        self._narrow.clear()

    def _has_channels_first(self, module: nn.Module, inputs: Any) -> bool:
        """By its type, or because it has no parameters and its input had: an activation after a convolution."""
        if isinstance(module, CHANNELS_FIRST):
            return True
        if next(module.parameters(), None) is not None:
            return False
        seen = (self._last_seen.get(id(tensor)) for tensor in tensors_in(inputs))
        return any(known is not None and known[0]() is not None and known[2].channels_first for known in seen)

    def _same_as_before(self, tensor: Tensor) -> ModuleCall | None:
        """The call whose output this tensor is: containers, identities and disabled dropout pass tensors on."""
        reference, seen_version, call = self._last_seen.get(id(tensor), (None, -1, None))
        unchanged = reference is not None and reference() is tensor and seen_version == version(tensor)
        return call if unchanged else None

    def _follow_gradient(self, tensor: Tensor, call: ModuleCall) -> None:
        if tensor.requires_grad and torch.is_grad_enabled():
            self._handles.append(tensor.register_hook(lambda gradient: self._gradient(call, gradient)))

    def _gradient(self, call: ModuleCall, gradient: Tensor) -> None:
        with unguarded():
            call.gradient_norm = norm(gradient)
        if self.progress is not None:
            self.progress(call.name)

    def _recompute(self, name: str, output: Any) -> None:
        """Follow the gradient of a module that activation checkpointing runs again in the backward pass.

        Its output was measured in the forward pass, but re-entrant checkpointing had no autograd graph then.
        """
        index = self._recomputed.get(name, 0)
        self._recomputed[name] = index + 1
        known = [call for call in self.calls if call.name == name]
        # Segments are rerun in another order: of a module that is called several times, the call is not known.
        if len(known) == 1 and index == 0 and known[0].gradient_norm is None:
            tensor = next((t for t in tensors_in(output) if t.shape == known[0].local_shape), None)
            if tensor is not None:
                self._follow_gradient(tensor, known[0])


def _is_padding(module: nn.Module, tokens: Tensor) -> bool:
    """True if an embedding looks up nothing but its padding token, whose vector is zero."""
    padding = module.padding_idx if isinstance(module, nn.Embedding) else None
    return padding is not None and bool((tokens == padding).all())


def _may_be_equal(rows: Tensor) -> bool:
    """True if all samples may be equal, because the first two are."""
    if len(rows) < 2:
        return True
    first, distance = rows[0].abs().amax(), (rows[1] - rows[0]).abs().amax()
    return not bool(distance > _EQUAL * first)  # nan too


def _start_of_graph(inputs: Any, output: Any) -> Tensor | None:
    """Return the output of a frozen embedding as the start of an autograd graph, None for any other module.

    Token ids have no gradient; with the embedding frozen nothing else would start a graph. The same values, and not a
    leaf, so that in-place operations on it stay allowed.
    """
    starts = isinstance(output, Tensor) and output.is_floating_point() and not output.requires_grad
    if not starts or not torch.is_grad_enabled() or any(t.is_floating_point() for t in tensors_in(inputs)):
        return None
    return output.detach().requires_grad_().clone()


def _why_unusable(output: Any, samples: "WholeBatch | SplitBatch") -> str:
    shapes = [tuple(t.shape) for t in tensors_in(output)]
    if not shapes:
        return f"its output, {type(output).__name__}, holds no tensor"
    # Every process gives the same reason, and shapes on processes differ.
    of_shapes = "" if samples.split else f" of its shapes {shapes}"
    return f"no floating output{of_shapes} has a dimension of {samples.total} samples"


def version(tensor: Tensor) -> int:
    """How often the tensor was changed in place; tensors of inference mode do not count."""
    return -1 if tensor.is_inference() else tensor._version
