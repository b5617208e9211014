"""Convolutions whose backward pass can be differentiated at the price of a convolution.

torch's own second derivative of a convolution always makes the gradient of the weight as well, one for every vector
that a Jacobian is multiplied with: fifty times the work in the last stage of a ResNet.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

TRANSPOSED: dict[str, Callable[..., Tensor]] = {
    "conv1d": F.conv_transpose1d,
    "conv2d": F.conv_transpose2d,
    "conv3d": F.conv_transpose3d,
}


def cheap_twice(function: Callable[..., Tensor], args: tuple[Any, ...], options: dict[str, Any]) -> Tensor | None:
    """The same convolution, if it is called in the way that modules call it; None leaves it to torch."""
    name = function.__name__
    if options or len(args) != 7 or not all(isinstance(sizes, tuple) for sizes in args[3:6]):
        return None
    image, weight, bias, stride, padding, dilation, groups = args
    if image.ndim != weight.ndim or not image.requires_grad:
        return None
    result: Tensor = _Convolution.apply(image, weight, name, function, stride, padding, dilation, groups)
    return result if bias is None else result + bias.reshape(-1, *([1] * len(stride)))


class _Convolution(torch.autograd.Function):
    """$y = Wx$ whose backward pass is the transposed convolution as an operation of its own."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, weight: Tensor, name: str, function: Any, *how: Any) -> Tensor:
        stride, padding, dilation, groups = how
        ctx.save_for_backward(weight)
        result: Tensor = function(image, weight, None, stride, padding, dilation, groups)
        kernel, sizes = weight.shape[2:], zip(image.shape[2:], result.shape[2:], strict=True)
        # What a stride left over at the far border.
        ctx.rest = tuple(
            before - ((after - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1)
            for i, (before, after) in enumerate(sizes)
        )
        ctx.kind, ctx.how = name, how
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.how
        transposed = TRANSPOSED[ctx.kind]
        image = transposed(gradients[0], weight, None, stride, padding, ctx.rest, groups, dilation)
        return image, *[None] * 7
