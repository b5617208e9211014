"""A differentiable copy of a model in eval mode; the user's model is never run, and may be trained meanwhile."""

import contextlib
import copy
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from orthoscope.probe.hooks import unwrapped
from orthoscope.probe.samples import Call, copied


def replica(model: nn.Module, dtype: torch.dtype | None = None, statistics: Call | None = None) -> nn.Module:
    """The model in eval mode, its weights part of the graph, in another precision if asked.

    With `statistics`, batch norm uses those of that batch instead of its running ones, which at
    initialization are 0 and 1 and make another network.
    """
    try:
        twin = copy.deepcopy(unwrapped(model))
    except Exception as error:  # attributes of modules may not be copyable
        raise ValueError(
            f"{type(model).__name__} cannot be copied ({type(error).__name__}: {error}), and its Jacobians are "
            "taken on a copy: build it anew, or load its weights into one that can"
        ) from error
    for parameter in twin.parameters():
        parameter.grad = None
        if parameter.is_floating_point():
            parameter.requires_grad_()
    twin = twin.eval() if dtype is None else twin.eval().to(dtype)
    if statistics is not None:
        _calibrate_(twin, statistics)
    return twin


def arguments(twin: nn.Module, call: Call) -> Call:
    """The call with tensors where the model is, floating ones in its precision and part of the graph."""
    weight = next((p for p in twin.parameters() if p.is_floating_point()), torch.zeros(()))
    with torch.enable_grad():
        return Call(*copied((call.args, dict(call.kwargs)), weight.device, True, weight.dtype))


@contextlib.contextmanager
def differentiable_pass() -> Iterator[None]:
    """A forward pass all of whose operations have second derivatives, and which leaves the random generator alone.

    Fused attention has none, and fast paths of torch's own encoder have not even first ones. Compiled code is run
    eagerly: additions inside it could not be seen.
    """
    fast = torch.backends.mha.get_fastpath_enabled()
    dynamo_is_loaded = "torch._dynamo" in sys.modules
    stance = torch.compiler.set_stance("force_eager") if dynamo_is_loaded else contextlib.nullcontext()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with stance, torch.random.fork_rng(devices=()), sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@torch.no_grad()
def _calibrate_(twin: nn.Module, call: Call) -> None:
    """One pass on `call` leaves its statistics in the running ones, the variance as torch keeps it (over n - 1)."""
    keeping: list[Any] = [
        module for module in twin.modules() if isinstance(getattr(module, "running_mean", None), Tensor)
    ]
    if not keeping:
        return
    momenta = [(module, module.momentum) for module in keeping]
    for module in keeping:
        module.train()
        module.momentum = 1.0
    batch = arguments(twin, call)
    with torch.random.fork_rng(devices=()):
        twin(*batch.args, **batch.kwargs)
    for module, momentum in momenta:
        module.eval()
        module.momentum = momentum
