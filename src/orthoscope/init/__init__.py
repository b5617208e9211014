"""Initialization of weights.

* `schemes`: `initialize_(model, name)`, the schemes that need shapes only (He, orthogonal, ...), and their variances.
* `lsuv`, `iterative`: data-dependent initialization, layer by layer on a batch, in forward order.
* `weights`: weights as stacks of matrices, read and written, also sharded and parametrized ones.

All schemes take the same arguments.

Args:
    layer: A linear or convolutional layer; its weight is overwritten.
    gain: Multiplies the weights.
    generator: Source of random numbers; None for torch's global one.
    model: Read, not changed.
    scheme: A name of `SCHEMES`.
    fan_in: Inputs of one output unit.
"""

from orthoscope.init.iterative import iterative_
from orthoscope.init.lsuv import lsuv_
from orthoscope.init.schemes import (
    SCHEMES,
    Scheme,
    bias_variance,
    delta_orthogonal_,
    gaussian_,
    he_,
    initialize_,
    normal_,
    orthogonal_,
    torch_default_,
    weight_variance,
    xavier_,
)
from orthoscope.init.weights import weight_sample

__all__ = [
    "SCHEMES", "Scheme", "bias_variance", "delta_orthogonal_", "gaussian_", "he_", "initialize_", "iterative_", "lsuv_",
    "normal_", "orthogonal_", "torch_default_", "weight_sample", "weight_variance", "xavier_",
]  # fmt: skip
