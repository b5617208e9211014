"""Arguments of a wrong type, and where warnings point to: one line for each, read by `test_orthogonal`."""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from orthoscope.layers import (
    OrthogonalityPenalty,
    low_rank_update,
    orthogonal,
    orthogonal_convolution,
    soft_orthogonality,
)

MISTAKES: list[Callable[[], object]] = [
    lambda: orthogonal(nn.Linear(4, 4), num_reflections=2.5),
    lambda: orthogonal(nn.Linear(4, 4), start="haar", generator=0),
    lambda: orthogonal(torch.eye(4)),
    lambda: orthogonal([nn.Linear(4, 4)]),
    lambda: low_rank_update(torch.eye(4)),
    lambda: orthogonal_convolution(nn.Conv2d(3, 3, 3), generator=0),
    lambda: OrthogonalityPenalty([nn.Linear(4, 4)]),
    lambda: soft_orthogonality(torch.randn(4)),
    lambda: setattr(orthogonal(nn.Linear(4, 4), start="haar"), "weight", np.eye(4)),
]

if __name__ == "__main__":
    for mistake in MISTAKES:
        try:
            mistake()
        except (TypeError, ValueError) as reason:
            print(f"{type(reason).__name__}: {reason}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        orthogonal(nn.Linear(4, 4))
        orthogonal_convolution(nn.Conv2d(3, 3, 3))
    for warning in caught:
        print(f"warned in {Path(warning.filename).name}: {warning.message}")
