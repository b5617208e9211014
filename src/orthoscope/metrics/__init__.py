r"""Tensor to number: what is measured, each quantity with its formula, in float64.

All functions batch over leading dimensions. An argument has one meaning in all of them.

Args:
    absolute: Average the size of the cosines, not the cosines.
    after: Weight $W'$ after the update, `(out, in)`.
    before: Weight $W$ before the update, `(out, in)`.
    centered: Subtract the mean of the batch first.
    classes: Number of classes $C$.
    count: Number $K$ of singular vectors, at most as many as were computed.
    energy: Sum of all squared singular values, $\|J\|_F^2$.
    gap: Distance $g$ of two layers, below the number of layers.
    gradient: Of a weight, `(out, in)`.
    hidden: Representations $H$, `(samples, units)`.
    jacobians: Of the blocks, in forward order, as `probe.residual_jacobians` returns them.
    leading: Largest singular value of every block, in forward order.
    log_norms: Log-norms of the gradient, layers from input to output.
    matrices: From `alignment_matrices`.
    norm: "frobenius" or "spectral".
    path: Representations of one input, `(depths, units)`.
    precision: The type whose $\varepsilon$ counts, by default that of the tensor.
    rank: Number $k$ of leading singular vectors.
    remove_floor: Subtract what a weight that is not square cannot go below.
    side: The singular vectors: "left", "right" or "both".
    singular_values: Largest first.
    update: $\Delta W$, `(out, in)`.
    vectors: The weight vectors: "rows" or "columns".
    weight: $W$, `(out, in)`.
"""

from orthoscope.linalg import singular_values
from orthoscope.metrics.gradients import Slope, depth_slope, explosion_rate, gradient_disparity, log_norm
from orthoscope.metrics.jacobians import (
    DepthLaw,
    Isometry,
    ResidualAlignment,
    alignment_matrices,
    condition_number,
    dead_blocks,
    depth_law,
    dynamical_isometry,
    line_shape,
    misalignment,
    rank_ratio,
    residual_alignment,
    spacing_variation,
    step_cosine,
    top_energy,
)
from orthoscope.metrics.representations import (
    effective_rank,
    isometry,
    isometry_gap,
    length_spread,
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
    "DepthLaw", "Isometry", "ResidualAlignment", "Slope", "alignment_matrices", "angle_change", "condition_number",
    "conformality_defect", "dead_blocks", "depth_law", "depth_slope", "diagonal_dominance",
    "double_sided_orthogonality", "dynamical_isometry", "effective_rank", "explosion_rate", "gradient_disparity",
    "independence_change", "isometry", "isometry_gap", "length_spread", "line_shape", "log_norm", "mean_energy",
    "mean_overlap", "misalignment", "mutual_coherence", "numerical_rank", "orthogonality_gap", "overlap_potential",
    "parameter_independence", "rank_ratio", "relative_size", "residual_alignment", "rms_operator_norm",
    "semi_orthogonality_defect", "singular_values", "smallest_direction_gap", "soft_orthogonality",
    "spacing_variation", "spectral_deviation", "stable_rank", "step_cosine", "subspace_share", "top_energy",
    "translation_defect", "update_alignment",
]  # fmt: skip
