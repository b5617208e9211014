"""The product and its gradient as operators, which a compiler keeps whole instead of tracing a thousand products."""

from itertools import chain

import torch
from torch import Tensor

from orthoscope.linalg.givens.order import remembered_order
from orthoscope.linalg.givens.products import rotation_product
from orthoscope.linalg.givens.triangles import Level
from orthoscope.linalg.givens.undoing import rotation_gradient
from orthoscope.linalg.gram_series import corrected, gram_excess
from orthoscope.linalg.precision import full_precision

_TALL = 2  # rows for every column from which on a product in double precision is a small part of the cost


@torch.library.custom_op("orthoscope::givens_frame", mutates_args=())
def frame_operator(angles: Tensor, rows: int, columns: int, pivots: int, keep: bool) -> list[Tensor]:
    """Frames; and after them, if `keep` and all rows are one block, what the gradient then need not make anew."""
    order = remembered_order(rows, pivots, angles.shape[0], angles.device)
    with full_precision(angles.device.type):
        frame, levels = rotation_product(angles, rows, columns, order)
        # A pivot is turned with every row, and each rounded rotation changes its length a little: taken out here. For
        # tall frames in double precision, because thousands of equal entries round their sum in the same direction.
        excess = gram_excess(frame.double()).to(frame.dtype) if rows >= _TALL * columns else gram_excess(frame)
        frame = corrected(frame, excess, degree=1)
    kept = chain.from_iterable(levels) if keep and order.row_blocks == 1 else ()
    return [frame.contiguous(), *kept]


@torch.library.custom_op("orthoscope::givens_gradient", mutates_args=())
def gradient_operator(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int, kept: list[Tensor]) -> Tensor:
    order = remembered_order(frame.shape[-2], pivots, angles.shape[0], angles.device)
    levels = [Level(*pair) for pair in zip(kept[::2], kept[1::2], strict=True)]
    with full_precision(angles.device.type):
        return rotation_gradient(angles, frame, gradient, order, levels).contiguous()


@frame_operator.register_fake
def _(angles: Tensor, rows: int, columns: int, pivots: int, keep: bool) -> list[Tensor]:
    return [angles.new_empty(angles.shape[0], rows, columns)]


@gradient_operator.register_fake
def _(angles: Tensor, frame: Tensor, gradient: Tensor, pivots: int, kept: list[Tensor]) -> Tensor:
    return torch.empty_like(angles)
