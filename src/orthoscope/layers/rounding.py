"""How far rounding alone can take a matrix from orthonormal."""

import math

import torch
from torch import Tensor


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which a weight stored in `dtype` is computed: at least single precision."""
    return torch.promote_types(dtype, torch.float32)


def rounding_tolerance(dtype: torch.dtype, rows: int) -> float:
    r"""The largest $\max|W^\mathsf{H}W - I|$ of an orthonormal matrix with that many rows, stored in `dtype`.

    $$ 2\varepsilon_\text{stored} + 10 \sqrt{\text{rows}}\, \varepsilon_\text{computed} $$

    Rounding the entries of unit columns changes an inner product by $\varepsilon$ at most. The second term is for
    how the matrix was computed, in single precision or better: QR measures $2\sqrt{\text{rows}}\,\varepsilon$.
    """
    stored, computed = torch.finfo(dtype).eps, torch.finfo(computing_dtype(dtype)).eps
    return 2 * stored + 10 * math.sqrt(rows) * computed


def as_once_stored(values: Tensor) -> Tensor:
    """The same numbers in the half-precision type that holds them exactly, if there is one.

    Such numbers were rounded to it on their way: a checkpoint in bfloat16 that was converted back, say.
    """
    if values.is_floating_point() and not values.is_meta:
        for dtype in (torch.bfloat16, torch.float16):
            rounded = values.to(dtype)
            if torch.equal(rounded.to(values.dtype), values):
                return rounded
    return values
