"""Tensor to number: what is measured, each quantity with its formula, in float64."""

from orthoscope.linalg import singular_values
from orthoscope.metrics.gradients import Slope, depth_slope, explosion_rate, gradient_disparity, log_norm
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
    "Slope",
    "angle_change",
    "conformality_defect",
    "depth_slope",
    "diagonal_dominance",
    "double_sided_orthogonality",
    "effective_rank",
    "explosion_rate",
    "gradient_disparity",
    "independence_change",
    "isometry",
    "isometry_gap",
    "log_norm",
    "mean_energy",
    "mean_overlap",
    "mutual_coherence",
    "numerical_rank",
    "orthogonality_gap",
    "overlap_potential",
    "parameter_independence",
    "relative_size",
    "rms_operator_norm",
    "semi_orthogonality_defect",
    "singular_values",
    "smallest_direction_gap",
    "soft_orthogonality",
    "spectral_deviation",
    "stable_rank",
    "subspace_share",
    "translation_defect",
    "update_alignment",
]
