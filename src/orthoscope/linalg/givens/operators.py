"""The product and its gradient as operators, which a compiler keeps whole instead of tracing a thousand products."""

import torch
from torch import Tensor

from orthoscope.linalg.givens.order import remembered_order
from orthoscope.linalg.givens.products import rotation_product
from orthoscope.linalg.givens.undoing import rotation_gradient


@torch.library.custom_op("orthoscope::givens_frame", mutates_args=())
def frame_operator(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
    # Under autocast the products would be taken in half precision.
    order = remembered_order(rows, pivots, angles.shape[0], angles.device)
    with torch.autocast(angles.device.type, enabled=False):
        return rotation_product(angles, rows, columns, order).contiguous()


@torch.library.custom_op("orthoscope::givens_gradient", mutates_args=())
def gradient_operator(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int) -> Tensor:
    order = remembered_order(frame.shape[-2], pivots, angles.shape[0], angles.device)
    with torch.autocast(angles.device.type, enabled=False):
        return rotation_gradient(angles, frame, gradient, order).contiguous()


@frame_operator.register_fake
def _(angles: Tensor, rows: int, columns: int, pivots: int) -> Tensor:
    return angles.new_empty(angles.shape[0], rows, columns)


@gradient_operator.register_fake
def _(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int) -> Tensor:
    return torch.empty_like(angles)
