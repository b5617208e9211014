"""The product and its gradient as operators, which a compiler keeps whole instead of tracing a thousand products."""

from itertools import chain

import torch
from torch import Tensor

from orthoscope.linalg.givens.order import remembered_order
from orthoscope.linalg.givens.products import rotation_product
from orthoscope.linalg.givens.triangles import Level
from orthoscope.linalg.givens.undoing import rotation_gradient


@torch.library.custom_op("orthoscope::givens_frame", mutates_args=())
def frame_operator(angles: Tensor, rows: int, columns: int, pivots: int, keep: bool) -> list[Tensor]:
    """Frames; and after them, if `keep` and all coordinates are one block, what `gradient_operator` then need not make."""
    # Under autocast the products would be taken in half precision.
    order = remembered_order(rows, pivots, angles.shape[0], angles.device)
    with torch.autocast(angles.device.type, enabled=False):
        frame, levels = rotation_product(angles, rows, columns, order)
    kept = chain.from_iterable(levels) if keep and order.row_blocks == 1 else ()
    return [frame.contiguous(), *kept]


@torch.library.custom_op("orthoscope::givens_gradient", mutates_args=())
def gradient_operator(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int, kept: list[Tensor]) -> Tensor:
    order = remembered_order(frame.shape[-2], pivots, angles.shape[0], angles.device)
    levels = [Level(*pair) for pair in zip(kept[::2], kept[1::2], strict=True)]
    with torch.autocast(angles.device.type, enabled=False):
        return rotation_gradient(angles, frame, gradient, order, levels).contiguous()


@frame_operator.register_fake
def _(angles: Tensor, rows: int, columns: int, pivots: int, keep: bool) -> list[Tensor]:
    return [angles.new_empty(angles.shape[0], rows, columns)]


@gradient_operator.register_fake
def _(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int, kept: list[Tensor]) -> Tensor:
    return torch.empty_like(angles)
