"""Tensor to number: what is measured, each quantity with its formula, in float64."""

from orthoscope.linalg import singular_values
from orthoscope.metrics.gradients import Slope, depth_slope, explosion_rate, gradient_disparity, log_norm
from orthoscope.metrics.jacobians.alignment import ResidualAlignment, residual_alignment
from orthoscope.metrics.jacobians.decay import DepthLaw, dead_blocks, depth_law
from orthoscope.metrics.jacobians.path import line_shape, spacing_variation, step_cosine
from orthoscope.metrics.jacobians.singular_vectors import alignment_matrices, misalignment
from orthoscope.metrics.jacobians.spectra import (
    Isometry,
    condition_number,
    dynamical_isometry,
    rank_ratio,
    top_energy,
)
from orthoscope.metrics.representations import (
    effective_rank,
    isometry,
    isometry_gap,
    mean_energy,
    mean_overlap,
    numerical_rank,
    orthogonality_gap,
    overlap_potential,
    smallest_direction_gap,
    stable_rank,
)
from orthoscope.metrics.updates import (
    angle_change,
    conformality_defect,
    independence_change,
    relative_size,
    semi_orthogonality_defect,
    subspace_share,
    translation_defect,
    update_alignment,
)
from orthoscope.metrics.weights import (
    diagonal_dominance,
    double_sided_orthogonality,
    mutual_coherence,
    parameter_independence,
    rms_operator_norm,
    soft_orthogonality,
    spectral_deviation,
)

__all__ = [
    "DepthLaw",
    "Isometry",
    "ResidualAlignment",
    "Slope",
    "alignment_matrices",
    "angle_change",
    "condition_number",
    "conformality_defect",
    "dead_blocks",
    "depth_law",
    "depth_slope",
    "diagonal_dominance",
    "double_sided_orthogonality",
    "dynamical_isometry",
    "effective_rank",
    "explosion_rate",
    "gradient_disparity",
    "independence_change",
    "isometry",
    "isometry_gap",
    "line_shape",
    "log_norm",
    "mean_energy",
    "mean_overlap",
    "misalignment",
    "mutual_coherence",
    "numerical_rank",
    "orthogonality_gap",
    "overlap_potential",
    "parameter_independence",
    "rank_ratio",
    "relative_size",
    "residual_alignment",
    "rms_operator_norm",
    "semi_orthogonality_defect",
    "singular_values",
    "smallest_direction_gap",
    "soft_orthogonality",
    "spacing_variation",
    "spectral_deviation",
    "stable_rank",
    "step_cosine",
    "subspace_share",
    "top_energy",
    "translation_defect",
    "update_alignment",
]
