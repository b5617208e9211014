"""Which module makes the first nan or infinity: one more pass over the batch of that step, with hooks on every module.

A module *makes* it if everything that goes in is finite and something that comes out is not; the others pass it on.
Nothing of this is paid for before a loss or a gradient is not finite.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from orthoscope.linalg.matrices import local_part
from orthoscope.probe.hooks import class_name, unwrapped
from orthoscope.probe.restore import untouched
from orthoscope.probe.samples import Call, tensors_in

# Operators whose infinities are meant: masks of attention.
_FILLS = ("masked_fill", "full", "fill", "where", "scalar_tensor", "new_full", "full_like", "triu", "tril")


@dataclass(frozen=True)
class Origin:
    """Where the first number that is not finite was made.

    Attributes:
        layer: Name of the module, "" for the model itself; None if it is none of the model's.
        sentence: What was found, to be read after "at step 12 the loss is nan: ".
    """

    layer: str | None
    sentence: str


@dataclass
class _Watched:
    """One call of a module during the pass."""

    name: str
    module: nn.Module
    clean: bool  # all that went in was finite
    operators: list[str] = field(default_factory=list)  # that made what is not finite, in words


def bad_weights(model: nn.Module) -> list[str]:
    """Names of the parameters and buffers that hold a number that is not finite."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return [name for name, tensor in tensors if _kind(local_part(tensor.detach()))]


@torch.no_grad()
def origin_of_output(model: nn.Module, call: Call) -> Origin | None:
    """Run the model once more, as it is called in training, and return where the first nan or infinity is made.

    None if the output is finite. The model and the random generators are left as they were; the pass draws its own
    random numbers.
    """
    for place, tensor in enumerate(_numbers((call.args, dict(call.kwargs)))):
        if kind := _kind(tensor):
            return Origin(None, f"the batch itself holds {kind} (tensor {place} of the model's arguments)")
    core = unwrapped(model)
    with untouched(core), _Following(core) as following:
        output = model(*call.args, **call.kwargs)
    if not any(_kind(tensor) for tensor in _numbers(output)):
        return None
    return following.origin()


class _Following(TorchDispatchMode):
    """Follows a forward pass: which modules and which operators turn finite numbers into others."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self._model = model
        self._open: list[_Watched] = []
        self._makers: list[tuple[_Watched, str]] = []
        self._passing = 0
        self._handles: list[Any] = []

    def __enter__(self) -> "_Following":
        for name, module in self._model.named_modules():
            self._handles.append(module.register_forward_pre_hook(self._opening(name), with_kwargs=True))
            self._handles.append(module.register_forward_hook(self._closing))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        for handle in self._handles:
            handle.remove()

    def _opening(self, name: str) -> Any:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            with _disable_current_modes():
                clean = not any(_kind(one) for one in _numbers((args, kwargs)))
            self._open.append(_Watched(name, module, clean))

        return hook

    def _closing(self, module: nn.Module, args: Any, output: Any) -> None:
        call = self._open.pop()
        with _disable_current_modes():
            kinds = [kind for one in _numbers(output) if (kind := _kind(one))]
        if kinds and call.clean:
            self._makers.append((call, kinds[0]))
        elif kinds:
            self._passing += 1
        if kinds and self._open:
            self._open[-1].operators += call.operators

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        with _disable_current_modes():
            name = str(function.overloadpacket).rpartition(".")[2]
            if self._open and not name.rstrip("_").startswith(_FILLS) and (kind := _first_kind(result)):
                given = list(_numbers((args, kwargs)))
                if not any(_kind(one) for one in given):
                    self._open[-1].operators.append(f"{kind} from `{name}`{_range(given)}")
        return result

    def origin(self) -> Origin:
        """The first maker of what is more than a mask; of nested modules, the innermost comes first."""
        best = next((one for one in self._makers if one[1] != "-inf"), None) or next(iter(self._makers), None)
        if best is None:
            return Origin("", "it is made outside its modules")
        call, kind = best
        how = f": {call.operators[0]}" if call.operators else ""
        count = self._passing
        passing = f"; {count} module call{'s' * (count > 1)} after it pass{'es' * (count == 1)} it on" if count else ""
        where = f"`{call.name}`" if call.name else "the forward of the model itself"
        return Origin(call.name, f"{where} ({class_name(call.module)}) makes {kind} of finite inputs{how}{passing}")


def origin_of_gradients(model: nn.Module, call: Call) -> Origin:
    """Tell, from gradients of parameters and the order of the modules' calls, where the backward pass loses finiteness.

    The gradient flows from the output to the input: the last module in call order whose parameters have a gradient
    that is not finite is where it begins, at it or between it and the next one.
    """
    order = _order_of_calls(unwrapped(model), call)
    modules = dict(unwrapped(model).named_modules())
    reached = [(name, _bad_gradients(modules[name])) for name in order]
    reached = [(name, bad) for name, bad in reached if bad is not None]
    places = [place for place, (_, bad) in enumerate(reached) if bad]
    if not places:
        return Origin(
            None, "no gradient of a module that was called: it is that of a parameter used outside its module"
        )
    name = reached[places[-1]][0]
    behind = [one for one, _ in reached[places[-1] + 1 :]]
    kind = class_name(modules[name])
    if not behind:
        return Origin(
            name,
            f"the gradient is not finite from `{name}` ({kind}), the last module with parameters, on: it is "
            f"made by the loss, or between `{name}` and the loss",
        )
    return Origin(
        name,
        f"the gradient is finite back to `{behind[0]}` and not from `{name}` ({kind}) on: it is made by an operation "
        f"between the output of `{name}` and the input of `{behind[0]}`",
    )


def _bad_gradients(module: nn.Module) -> bool | None:
    """Whether a gradient of the module's own parameters is not finite; None if there is none."""
    own = [one.grad for one in module.parameters(recurse=False) if one.grad is not None]
    return any(bool(_kind(local_part(one))) for one in own) if own else None


@torch.no_grad()
def _order_of_calls(model: nn.Module, call: Call) -> list[str]:
    order: list[str] = []

    def called(name: str) -> Any:
        return lambda *_: order.append(name)

    handles = [module.register_forward_hook(called(name)) for name, module in model.named_modules()]
    try:
        with untouched(model):
            model(*call.args, **call.kwargs)
    finally:
        for handle in handles:
            handle.remove()
    return list(dict.fromkeys(order))


def _numbers(value: Any) -> Iterator[Tensor]:
    return (tensor for tensor in tensors_in(value) if tensor.is_floating_point())


def _first_kind(value: Any) -> str:
    return next((kind for one in _numbers(value) if (kind := _kind(one))), "")


def _kind(tensor: Tensor) -> str:
    """ "nan", "inf" or "-inf", the worst that the tensor holds; empty if all numbers are finite."""
    if tensor.is_sparse:
        tensor = tensor.coalesce().values()
    if not tensor.is_floating_point() or bool(tensor.isfinite().all()):
        return ""
    if bool(tensor.isnan().any()):
        return "nan"
    return "inf" if bool((tensor > 0).logical_and(tensor.isinf()).any()) else "-inf"


def _range(given: list[Tensor]) -> str:
    """The range of what an operator was given, which tells a logarithm of a negative number."""
    ranges = [f"{float(one.min()):.3g} to {float(one.max()):.3g}" for one in given if one.numel()]
    return f" of numbers from {', '.join(ranges[:2])}" if ranges else ""
