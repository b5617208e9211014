"""One number for several samples."""

import torch
from torch import Tensor


def defined_median(values: Tensor) -> float:
    """The median of the entries that are finite, of an even number the mean of the two in the middle; nan of none."""
    defined = values[values.isfinite()].double()
    # Not `median`, which returns the lower of the two.
    return float(defined.quantile(0.5)) if defined.numel() else torch.nan
