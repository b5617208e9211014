"""A pass through a model that leaves no trace: weights, buffers, grads, flags, hooks, attributes, random state."""

import contextlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from orthoscope.probe.sharded import shard

# Integers as wide as an element: comparing bits byte by byte would take four times as long.
_WORDS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


@contextlib.contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """Whatever happens inside, also an exception, the model and the random generators leave as they came.

    Not seen: what a model keeps outside its parameters, buffers and plain attributes, such as generators of
    its own or lists within lists.
    Costs one copy of the weights and buffers, which anyone who can train the model can afford.
    """
    with _random_state(model), contextlib.ExitStack() as restored:
        # Undone in reverse: attributes first, for a forward pass may have bound a new tensor to a buffer's name.
        tensors = _Tensors(model)
        restored.callback(tensors.restore)
        for module in model.modules():
            restored.callback(_Attributes(module).restore)
        tensors.set_aside()
        yield


class _Tensors:
    """Values of every parameter and buffer; grads, flags and hooks of the parameters.

    Grads are set aside, not copied: nobody writes to them. So are hooks that act on a gradient as soon as
    it is there, as an optimizer in the backward pass does.
    """

    def __init__(self, model: nn.Module) -> None:
        self.parameters = list(model.parameters())
        tensors = (*self.parameters, *model.buffers())
        self.values = [(tensor, tensor.detach().clone(), tensor.requires_grad) for tensor in tensors]
        self.grads = [(tensor, tensor.grad) for tensor in tensors if tensor.is_leaf]
        hooks = (parameter._post_accumulate_grad_hooks for parameter in self.parameters)
        self.hooks = [(holder, dict(holder)) for holder in hooks if holder]

    def set_aside(self) -> None:
        for tensor, _ in self.grads:
            tensor.grad = None
        for holder, _ in self.hooks:
            holder.clear()

    @torch.no_grad()
    def restore(self) -> None:
        for tensor, value, requires_grad in self.values:
            if not _same_bits(tensor, value):
                tensor.copy_(value)
            if tensor.requires_grad is not requires_grad:
                tensor.requires_grad_(requires_grad)
        for tensor, grad in self.grads:
            tensor.grad = grad
        for holder, hooks in self.hooks:
            holder.update(hooks)


def _same_bits(tensor: Tensor, value: Tensor) -> bool:
    """Bits, not values: nan equals itself, and minus zero is not zero. Version counters do not see `.data`."""
    tensor, value = shard(tensor.detach()), shard(value)
    if tensor.layout is not torch.strided:
        return torch.equal(tensor.detach().to_dense(), value.to_dense())
    tensor, value = tensor.resolve_conj().resolve_neg(), value.resolve_conj().resolve_neg()
    word = _WORDS.get(tensor.element_size(), torch.uint8)
    return torch.equal(tensor.detach().flatten().view(word), value.flatten().view(word))


class _Attributes:
    """Everything a module holds in its dictionary: training flag, hooks, counters, caches.

    Containers are refilled in place, because hook handles keep weak references to them. Hooks of state
    dictionaries stay: FSDP sets its own in its first pass, once and for all.
    """

    STAY = ("_state_dict_pre_hooks", "_load_state_dict_pre_hooks")

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = module.training  # a scripted module does not keep it in its dictionary
        self.values = dict(vars(module))
        self.contents = {
            k: v.copy() for k, v in self.values.items() if isinstance(v, (dict, list, set)) and k not in self.STAY
        }

    def restore(self) -> None:
        for name, content in self.contents.items():
            _refill(self.values[name], content)
        vars(self.module).clear()
        vars(self.module).update(self.values)
        if self.module.training is not self.training:
            self.module.training = self.training


def _refill(container: Any, content: Any) -> None:
    container.clear()
    if isinstance(container, list):
        container.extend(content)
    else:
        container.update(content)


@contextlib.contextmanager
def _random_state(model: nn.Module) -> Iterator[None]:
    """Python's, NumPy's and torch's generators, the latter on the CPU and on every device the model lives on."""
    python, numpy = random.getstate(), np.random.get_state()
    devices = {p.device for p in (*model.parameters(), *model.buffers()) if p.device.type not in ("cpu", "meta")}
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=()))
        for device_type in {device.type for device in devices}:
            indices = [d.index or 0 for d in devices if d.type == device_type]
            stack.enter_context(torch.random.fork_rng(devices=indices, device_type=device_type))
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


@contextlib.contextmanager
def probing_mode(model: nn.Module, batch_statistics: bool) -> Iterator[None]:
    """Stochastic layers off, and batch statistics on where a layer keeps running ones.

    At initialisation running statistics are 0 and 1, so a batch-norm net in eval mode is another
    network. Dropout and drop-path would put noise, or whole rows of zeros, into every metric.
    Compiled code ignores hooks that are registered after it ran once; eager code does not.
    """
    for module in model.modules():
        keeps_statistics = isinstance(getattr(module, "running_mean", None), Tensor)
        module.training = batch_statistics and keeps_statistics
    dynamo_is_loaded = "torch._dynamo" in sys.modules
    stance = torch.compiler.set_stance("force_eager") if dynamo_is_loaded else contextlib.nullcontext()
    with stance:
        yield
