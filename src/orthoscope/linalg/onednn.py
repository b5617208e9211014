"""Products in float32 by oneDNN, where it is much faster than MKL, which torch asks for them.

Both come with torch. MKL has no 512-bit instructions for processors of other makers than its own: on AMD's Zen 5 oneDNN
takes 0.45 of its time, from 256 rows on, on one core or two. On Intel's processors and on Zen 4 the two are alike.
Its rounding is up to twice MKL's, which does not add up more than 192 terms at a time.
"""

import functools
import time

import torch
from torch import Tensor

from orthoscope.linalg.transformed import is_transformed

# Sides from which on a product makes up for what the call costs.
_SMALLEST = 128

# Much faster is less than this share of MKL's time: far from 1, so that it is the same in every process of a machine.
_SHARE = 0.7


def suits(left: Tensor, right: Tensor) -> bool:
    """Whether `onednn_product` takes these, and is faster."""
    return (
        left.ndim == 2
        and left.dtype == right.dtype == torch.float32
        and left.device.type == right.device.type == "cpu"
        and min(*left.shape, right.shape[-1]) >= _SMALLEST
        and not is_transformed(left)
        and not is_transformed(right)
        and torch._C._get_mkldnn_enabled()
        and _is_much_faster()
    )


def onednn_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """$AB$ of two matrices, in memory of its own, or copied to `out`."""
    # Laid out by rows or by columns. From within a larger matrix it would be a thousand times slower.
    dense = right if right.is_contiguous() or right.mT.is_contiguous() else right.contiguous()
    product = torch.ops.mkldnn._linear_pointwise(left, dense.mT, None, "none", [], "")
    return product if out is None else out.copy_(product)


@functools.cache
def _is_much_faster() -> bool:
    """Measured once a process, in about ten milliseconds, and that it multiplies."""
    available = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    if not available or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    matrix = torch.ones(512, 512, dtype=torch.float32, device="cpu")
    seconds: dict[str, list[float]] = {"onednn": [], "mkl": []}
    for _ in range(5):
        for name, multiply in (("onednn", onednn_product), ("mkl", torch.mm)):
            start = time.perf_counter()
            result = multiply(matrix, matrix)
            seconds[name].append(time.perf_counter() - start)
            if not bool((result == len(matrix)).all()):
                return False
    return min(seconds["onednn"]) < _SHARE * min(seconds["mkl"])
