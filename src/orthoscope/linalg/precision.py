"""What surrounds a computation: autocast, double precision, and whether autograd, vmap or a tracer is active."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter


def full_precision(device_type: str) -> AbstractContextManager[object]:
    """Disable autocast, which would compute matrix products in half precision.

    Entering autocast costs as much as a small product, so where it is already off nothing is entered.
    """
    if not torch.amp.is_autocast_available(device_type) or not torch.is_autocast_enabled(device_type):
        return nullcontext()
    return torch.amp.autocast(device_type, enabled=False)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def in_full_precision(function: _Function) -> _Function:
    """Decorate a function of tensors that must compute as if its caller had no autocast."""

    @wraps(function)
    def protected(*args: Any, **kwargs: Any) -> Any:
        first = next(argument for argument in (*args, *kwargs.values()) if isinstance(argument, Tensor))
        with full_precision(first.device.type):
            return function(*args, **kwargs)

    return protected  # type: ignore[return-value]


def to_double(tensor: Tensor) -> Tensor:
    """Convert to float64 or complex128."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float64))


def float32_products_are_exact() -> bool:
    """True if float32 matrices are multiplied in float32, False if TF32 or bfloat16 may be used on some device."""
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set by backend, with torch.backends.….fp32_precision: there is no single answer
        return False


def has_plain_values(tensor: Tensor) -> bool:
    """True if values may be read and buffers overwritten: no autograd, forward mode, vmap, tracing or tensor subclass.

    Otherwise `out=` and decisions that depend on values are not allowed.
    """
    return not (
        (tensor.requires_grad and torch.is_grad_enabled())
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None)
        or tensor.is_meta
        or type(tensor) not in (Tensor, Parameter)
        or torch._C._len_torch_dispatch_stack() > 0
    )


def mapped_first(tensor: Tensor, axis: int | None, size: int) -> Tensor:
    """The axis that `vmap` maps over as the first one; a tensor that is not mapped is expanded to `size`."""
    return tensor.expand(size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
