"""Linear algebra on tensors: orthonormal frames, polar factors, orthogonalization, spectra."""

from orthoscope.linalg.cayley import cayley_coordinates, cayley_frame
from orthoscope.linalg.convolution import convolution_deviation, convolution_singular_values
from orthoscope.linalg.exponential import exponential_frame, skew_exponential
from orthoscope.linalg.givens.elimination import givens_coordinates
from orthoscope.linalg.givens.frame import givens_count, givens_frame, givens_pairs
from orthoscope.linalg.gram_factor import (
    contrasts,
    gram_factor,
    gram_singular_values,
    singular_values,
    triangle_condition,
)
from orthoscope.linalg.haar import haar
from orthoscope.linalg.householder import householder_coordinates, householder_frame
from orthoscope.linalg.matrices import group_matrices, weight_matrix, weight_of_group_matrices
from orthoscope.linalg.orthogonalize import METHODS, chosen_method, orthogonalize, orthogonalized_values
from orthoscope.linalg.polar import nearest_frame, orthonormality_error, polar_factor
from orthoscope.linalg.top_triplets import Triplets, top_triplets

__all__ = [
    "METHODS", "Triplets", "cayley_coordinates", "cayley_frame", "chosen_method", "contrasts", "convolution_deviation",
    "convolution_singular_values", "exponential_frame", "givens_coordinates", "givens_count", "givens_frame",
    "givens_pairs", "gram_factor", "gram_singular_values", "group_matrices", "haar", "householder_coordinates",
    "householder_frame", "nearest_frame", "orthogonalize", "orthogonalized_values", "orthonormality_error",
    "polar_factor", "singular_values", "skew_exponential", "top_triplets", "triangle_condition", "weight_matrix",
    "weight_of_group_matrices",
]  # fmt: skip
