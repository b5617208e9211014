"""Products in float32 by oneDNN, where it is much faster than MKL, which torch asks for them.

Both come with torch. MKL has no 512-bit instructions for processors of other makers than its own: on AMD's Zen 5 oneDNN
takes 0.45 of its time from 256 rows on, on one core or two, and 0.7 at 128. On Intel's processors and on Zen 4 the two
are alike. Its rounding is up to twice MKL's, which does not add up more than 192 terms at a time.
"""

import functools
import re
from pathlib import Path

import torch
from torch import Tensor

from orthoscope.linalg.transformed import is_transformed

# Sides from which on a product makes up for what the call costs.
_SMALLEST = 128

# The family of AMD's processors from which on units are 512 bits wide: Zen 5.
_FAMILY = 26


def suits(left: Tensor, right: Tensor) -> bool:
    """Whether `onednn_product` takes these, and is faster."""
    return (
        left.ndim == right.ndim == 2
        and left.dtype == right.dtype == torch.float32
        and left.device.type == right.device.type == "cpu"
        and left.shape[1] == right.shape[0]
        and min(*left.shape, right.shape[1]) >= _SMALLEST
        and not is_transformed(left)
        and not is_transformed(right)
        and torch._C._get_mkldnn_enabled()
        and _is_much_faster()
    )


def onednn_product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """$AB$ of two matrices, in memory of its own, or copied to `out`."""
    if left.mT.is_contiguous() and (right.mT.is_contiguous() or right.numel() < left.numel()):
        # As (BᵀAᵀ)ᵀ: the factor on the left is copied if it is laid out by columns.
        product = _by_rows(right.mT, left.mT).mT
    else:
        product = _by_rows(left, right)
    return product if out is None else out.copy_(product)


def _by_rows(left: Tensor, right: Tensor) -> Tensor:
    # Laid out by rows or by columns. From within a larger matrix it would be a thousand times slower.
    dense = right if right.is_contiguous() or right.mT.is_contiguous() else right.contiguous()
    return torch.ops.mkldnn._linear_pointwise(left, dense.mT, None, "none", [], "")


@functools.cache
def _is_much_faster() -> bool:
    """By the processor, not by a measurement: all processes of a machine have to round alike."""
    available = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    described = Path("/proc/cpuinfo")
    return (
        available
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and described.exists()
        and has_wide_units_of_amd(described.read_text(errors="replace"))
    )


def has_wide_units_of_amd(description: str) -> bool:
    """Whether what Linux says of the first processor is that it is AMD's Zen 5 or later, with 512-bit instructions."""
    first, _, _ = description.partition("\n\n")
    found = dict(re.findall(r"^(vendor_id|cpu family|flags)\s*:\s*(.*)$", first, re.MULTILINE))
    return (
        found.get("vendor_id") == "AuthenticAMD"
        and int(found.get("cpu family", 0)) >= _FAMILY
        and "avx512f" in found.get("flags", "").split()
    )
