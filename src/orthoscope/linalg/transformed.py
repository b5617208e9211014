"""Whether a tensor is more than its numbers: then only operations that torch can follow may touch it."""

import torch
from torch import Tensor
from torch.autograd import forward_ad


def is_transformed(tensor: Tensor) -> bool:
    """Whether a derivative in either direction, or a batch dimension of `vmap`, or no numbers at all, come with it."""
    return (
        (tensor.requires_grad and torch.is_grad_enabled())
        or torch.compiler.is_compiling()
        or torch._C._get_tracing_state() is not None
        or torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        or forward_ad.unpack_dual(tensor).tangent is not None
        or tensor.is_meta
    )
