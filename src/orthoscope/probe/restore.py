"""Run a model and restore everything: weights, buffers, gradients, flags, hooks, attributes, and random state."""

import contextlib
import random
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from orthoscope.linalg.matrices import local_part

# Bytes of parameters that are simply copied: cheaper than looking at every operator.
_SMALL_MODEL = 1 << 23

# Integers as wide as an element: comparing bits byte by byte would take four times as long.
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@contextlib.contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Context after which, also after an exception, the model and the random generators are as they were before.

    Buffers are copied, and parameters of small models. A parameter of a large model is copied just before an operator
    writes to it, through `.data` as well, so that no second copy of the model is held; one that was given other memory
    (`weight.data = ...`) gets its own back. Not seen are then writes that bypass torch's operators; and, in any model,
    what is kept outside parameters, buffers and plain attributes, such as generators of its own or lists within lists.
    """
    parameters, buffers = list(model.parameters()), list(model.buffers())
    tensors = [*parameters, *buffers]
    leaves = [tensor for tensor in tensors if tensor.is_leaf]
    # Hooks that act on a gradient as soon as it is there, such as an optimizer in the backward pass.
    hooks = [holder for parameter in parameters if (holder := parameter._post_accumulate_grad_hooks)]
    with _random_state({tensor.device for tensor in tensors}), contextlib.ExitStack() as restored:
        # Undone in reverse: attributes first, for a forward pass may have bound a new tensor to a buffer's name. One by
        # one: an error in the first must not prevent the restoration of grads.
        for holder in hooks:
            restored.callback(holder.update, dict(holder))
        for tensor in leaves:
            restored.callback(setattr, tensor, "grad", tensor.grad)
        for tensor in tensors:
            restored.callback(_restore_flag, tensor, tensor.requires_grad)
        values = _Values(parameters, buffers)
        restored.callback(values.restore)
        for module in model.modules():
            restored.callback(_Attributes(module).restore)
        # Set aside, not copied: nothing writes to them.
        for tensor in leaves:
            tensor.grad = None
        for holder in hooks:
            holder.clear()
        with values.guard:
            yield


@contextlib.contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Context after which every module has the attributes of before: caches of one pass must not serve the next."""
    with contextlib.ExitStack() as restored:
        for module in model.modules():
            restored.callback(_Attributes(module).restore)
        yield


def _restore_flag(tensor: Tensor, requires_grad: bool) -> None:
    if tensor.requires_grad is not requires_grad:
        tensor.requires_grad_(requires_grad)


@contextlib.contextmanager
def unguarded() -> Iterator[None]:
    """Context for code that writes to no parameter: the guard of `untouched`, a dispatch mode, is not consulted."""
    if torch._C._len_torch_dispatch_stack() == 0:
        yield
        return
    with _disable_current_modes():
        yield


class _WriteGuard(TorchDispatchMode):
    """Copies a parameter just before the first operator that writes to its memory."""

    supports_higher_order_operators = True  # such as flex_attention, which write to nothing

    def __init__(self, parameters: Iterable[Tensor]) -> None:
        super().__init__()
        self.copies: list[tuple[Tensor, Tensor]] = []
        self._owners: dict[int | None, list[Tensor]] = {}
        for parameter in parameters:
            self._owners.setdefault(address(parameter), []).append(local_part(parameter.detach()))

    def __torch_dispatch__(
        self,
        function: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if isinstance(function, OpOverload) and function._schema.is_mutable:
            for position, argument in enumerate(function._schema.arguments):
                if argument.alias_info is not None and argument.alias_info.is_write:
                    given = args[position] if position < len(args) else kwargs.get(argument.name)
                    for tensor in given if isinstance(given, (list, tuple)) else (given,):
                        self._save(tensor)
        return function(*args, **kwargs)

    def _save(self, tensor: Any) -> None:
        if isinstance(tensor, Tensor):
            for parameter in self._owners.pop(address(tensor), ()):
                self.copies.append((parameter, parameter.clone()))


class _Values:
    """Values of buffers, and of parameters that are written to."""

    def __init__(self, parameters: Sequence[Tensor], buffers: Sequence[Tensor]) -> None:
        small = sum(parameter.nbytes for parameter in parameters) <= _SMALL_MODEL
        copied = [parameter for parameter in parameters if small or address(parameter) is None]
        guarded = [] if small else [parameter for parameter in parameters if address(parameter) is not None]
        self.guard: contextlib.AbstractContextManager[Any] = (
            _WriteGuard(guarded) if guarded else contextlib.nullcontext()
        )
        self.copies = [(tensor, tensor.detach().clone()) for tensor in (*copied, *buffers)]
        # Aliases, not copies: `tensor.data = other`, as a conversion or offloading does, is no operator.
        self.memory = [(t, t.data, address(t)) for t in (*parameters, *buffers) if address(t) is not None]

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, data, where in self.memory:
            if address(tensor) != where or tensor.shape != data.shape or tensor.dtype != data.dtype:
                tensor.data = data
        noticed = self.guard.copies if isinstance(self.guard, _WriteGuard) else ()
        for tensor, value in (*self.copies, *noticed):
            if not _same_bits(tensor, value):
                tensor.copy_(value)


def address(tensor: Tensor) -> int | None:
    """Where a tensor's memory begins, None for sparse tensors and subclasses without memory of their own."""
    try:
        return local_part(tensor).untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return None


def _same_bits(tensor: Tensor, value: Tensor) -> bool:
    """True if two tensors agree bit by bit: nan equals itself, and minus zero is not zero."""
    tensor, value = local_part(tensor.detach()), local_part(value)
    if tensor.layout is not torch.strided:
        return torch.equal(tensor.to_dense(), value.to_dense())
    tensor, value = tensor.resolve_conj().resolve_neg(), value.resolve_conj().resolve_neg()
    integer = _INTEGERS.get(tensor.element_size(), torch.uint8)
    return torch.equal(tensor.flatten().view(integer), value.flatten().view(integer))


_CONTAINERS = (dict, list, set)
_STAY = ("_state_dict_pre_hooks", "_load_state_dict_pre_hooks")


class _Attributes:
    """Everything a module holds in its dictionary: training flag, hooks, counters, caches.

    Containers are refilled in place, because hook handles keep weak references to them. Hooks of state
    dictionaries stay: FSDP registers its own in its first pass, once and for all.
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = module.training  # a scripted module does not keep it in its dictionary
        self.values = dict(vars(module))
        # Most are empty, and stay so: nothing is copied then.
        self.contents = [
            (v, v.copy() if v else ()) for k, v in self.values.items() if isinstance(v, _CONTAINERS) and k not in _STAY
        ]

    def restore(self) -> None:
        for container, content in self.contents:
            if container or content:
                container.clear()
                (container.extend if isinstance(container, list) else container.update)(content)
        vars(self.module).clear()
        vars(self.module).update(self.values)
        if self.module.training is not self.training:
            self.module.training = self.training


@contextlib.contextmanager
def _random_state(devices: Collection[torch.device]) -> Iterator[None]:
    """Restore Python's, NumPy's and torch's generators, the latter on the CPU and on the devices of the model."""
    python, numpy = random.getstate(), np.random.get_state()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=()))
        for device_type in {device.type for device in devices} - {"cpu", "meta"}:
            indices = [d.index or 0 for d in devices if d.type == device_type]
            stack.enter_context(torch.random.fork_rng(devices=indices, device_type=device_type))
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextlib.contextmanager
def probing_mode(model: nn.Module, batch_statistics: bool) -> Iterator[None]:
    """Context in which stochastic layers are off, and batch statistics on where a layer keeps running ones.

    At initialization running statistics are 0 and 1, so a network with batch norm in eval mode is another network.
    Dropout and drop-path would put noise, or whole rows of zeros, into every metric. Compiled code ignores hooks that
    are registered after it ran once; eager code does not.
    """
    for module in model.modules():
        keeps_statistics = isinstance(getattr(module, "running_mean", None), Tensor)
        module.training = batch_statistics and keeps_statistics
    # `flex_attention` compiles itself, which fails under a dispatch mode, unless forced to stay eager.
    may_compile = "torch._dynamo" in sys.modules or "torch.nn.attention.flex_attention" in sys.modules
    stance = torch.compiler.set_stance("force_eager") if may_compile else contextlib.nullcontext()
    with stance:
        yield
