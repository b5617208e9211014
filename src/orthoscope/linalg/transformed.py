"""Whether a tensor is more than its numbers: then only operations that torch can follow may touch it."""

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

# Any other type may be a stand-in without numbers, or do more than it says.
_PLAIN = (Tensor, Parameter)


def is_transformed(tensor: Tensor) -> bool:
    """Whether a derivative in either direction, a batch dimension of `vmap`, a tracer, or no numbers come with it."""
    return (
        (tensor.requires_grad and torch.is_grad_enabled())
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        or (forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None)
        or tensor.is_meta
        or type(tensor) not in _PLAIN
        or torch._C._len_torch_dispatch_stack() > 0
    )


def is_only_differentiated(tensor: Tensor) -> bool:
    """Whether a derivative comes with it, as `backward` takes one, and nothing else."""
    return (
        tensor.requires_grad
        and torch.is_grad_enabled()
        and forward_ad._current_level < 0
        and not is_transformed(tensor.detach())
    )
