"""Tensor to tensor: the linear algebra everything else is made of."""

from orthoscope.linalg.frames import contrasts, sample_frame, triangle_condition
from orthoscope.linalg.haar import haar
from orthoscope.linalg.matrices import weight_matrix
from orthoscope.linalg.parallel import over_cores
from orthoscope.linalg.spectra import gram_singular_values, singular_values

__all__ = [
    "contrasts",
    "gram_singular_values",
    "haar",
    "over_cores",
    "sample_frame",
    "singular_values",
    "triangle_condition",
    "weight_matrix",
]
