"""Theory: hyper-parameters to numbers, before anything is built; every function carries its source."""

from orthoscope.theory.activations import Nonlinearity, nonlinearity
from orthoscope.theory.chain.batch_norm import (
    gap_contraction,
    gap_squared_after_layer,
    mean_squared_singular_values,
    stationary_gap,
    stationary_gap_squared,
    stationary_log_gap,
)
from orthoscope.theory.chain.bounds import (
    average_instability_bound,
    expected_gap_bound,
    gap_bound_of_weakest,
    gram_variance,
    mean_field_weakest_gap_bound,
    sharp_expected_gap_bound,
    weakest_gap_bound,
)
from orthoscope.theory.chain.gap_trajectory import gap_trajectory
from orthoscope.theory.chain.iterative_orthogonalisation import iterative_gap, iterative_singular_values
from orthoscope.theory.chain.lyapunov import collapse_rate, collapsed_gap, lyapunov_exponents
from orthoscope.theory.chain.wasserstein import (
    stationary_wasserstein,
    wasserstein_bound,
    wasserstein_bound_of_gap,
    wasserstein_to_gaussian,
)
from orthoscope.theory.errata import Comparison, Erratum, errata
from orthoscope.theory.gram.dynamics import gram_condition, gram_fixed_point, gram_trajectory
from orthoscope.theory.gram.finite_width import GramResponse, finite_width_gram_error, gram_response, linear_gram_error
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.gram.isometry_floor import gaussian_isometry_gap, isometry_gap_floor
from orthoscope.theory.gram.normalisation_isometry import gram_isometry, isometry_gain, isometry_gain_bound
from orthoscope.theory.haar.batch_norm import (
    expected_haar_gap,
    haar_contraction,
    haar_gap_bound,
    haar_isometry_gain,
    haar_variance_gap_bound,
)
from orthoscope.theory.haar.gap_decay import eigenvalue_radius, gap_decay_depth, isometry_gap_bound, next_gap_bound
from orthoscope.theory.haar.gradient import (
    batch_norm_jacobian_bound,
    batch_norm_log_jacobian_bound,
    drift_gradient_log_norm_bound,
    gradient_log_norm_bound,
    hitting_time_bound,
    second_phase_bound,
    smallest_eigenvalue_bound,
)
from orthoscope.theory.haar.moments import haar_moment
from orthoscope.theory.haar.overlaps import random_parameter_independence
from orthoscope.theory.haar.weingarten import weingarten
from orthoscope.theory.kernel.convergence import (
    contraction_rate,
    convergence_case,
    distance_bound,
    normalised_rate,
    slow_distance,
)
from orthoscope.theory.kernel.gain_of_slope import gain_of_slope
from orthoscope.theory.kernel.hermite import hermite_coefficients, hermite_polynomials, hermite_table
from orthoscope.theory.kernel.kernel_map import KernelMap, kernel_map
from orthoscope.theory.kernel.leaky_slope import leaky_slope
from orthoscope.theory.network import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    LostSignal,
    NoTheory,
    Propagation,
    Signal,
    effective_rank,
    gap_of_overlaps,
    gaussian_inputs,
    isometry_gap_of_overlaps,
    long_run,
    propagate,
    propagated_layers,
    sources_of,
    spread_law,
    typical_spectrum,
)
from orthoscope.theory.residual.alignment import aligned_representations, equispacing_singular_values
from orthoscope.theory.residual.normalised_gradient import (
    NormalisedResidualGradients,
    gradient_before_normalisation,
    normalised_residual_gradients,
    without_direction,
    without_mean,
)
from orthoscope.theory.residual.trace_inequality import rotated_trace_supremum
from orthoscope.theory.residual.unconstrained_jacobians import JacobiansOptimum, unconstrained_jacobians_optimum
from orthoscope.theory.sources import BIBLIOGRAPHY, Source, source_of

__all__ = [
    "BIBLIOGRAPHY",
    "Comparison",
    "Erratum",
    "GramResponse",
    "Hyperparameters",
    "Inputs",
    "JacobiansOptimum",
    "KernelMap",
    "LinearLaw",
    "LostSignal",
    "NoTheory",
    "Nonlinearity",
    "NormalisedResidualGradients",
    "Propagation",
    "Signal",
    "Source",
    "aligned_representations",
    "average_instability_bound",
    "batch_norm_jacobian_bound",
    "batch_norm_log_jacobian_bound",
    "collapse_rate",
    "collapsed_gap",
    "contraction_rate",
    "convergence_case",
    "distance_bound",
    "drift_gradient_log_norm_bound",
    "effective_rank",
    "eigenvalue_radius",
    "equispacing_singular_values",
    "errata",
    "expected_gap_bound",
    "expected_haar_gap",
    "finite_width_gram_error",
    "gain_of_slope",
    "gap_bound_of_weakest",
    "gap_contraction",
    "gap_decay_depth",
    "gap_of_overlaps",
    "gap_squared_after_layer",
    "gap_trajectory",
    "gaussian_inputs",
    "gaussian_isometry_gap",
    "gradient_before_normalisation",
    "gradient_growth",
    "gradient_log_norm_bound",
    "gram_condition",
    "gram_fixed_point",
    "gram_isometry",
    "gram_response",
    "gram_trajectory",
    "gram_variance",
    "haar_contraction",
    "haar_gap_bound",
    "haar_isometry_gain",
    "haar_moment",
    "haar_variance_gap_bound",
    "hermite_coefficients",
    "hermite_polynomials",
    "hermite_table",
    "hitting_time_bound",
    "isometry_gain",
    "isometry_gain_bound",
    "isometry_gap_bound",
    "isometry_gap_floor",
    "isometry_gap_of_overlaps",
    "iterative_gap",
    "iterative_singular_values",
    "kernel_map",
    "leaky_slope",
    "linear_gram_error",
    "long_run",
    "lyapunov_exponents",
    "mean_field_weakest_gap_bound",
    "mean_squared_singular_values",
    "next_gap_bound",
    "nonlinearity",
    "normalised_rate",
    "normalised_residual_gradients",
    "propagate",
    "propagated_layers",
    "random_parameter_independence",
    "rotated_trace_supremum",
    "second_phase_bound",
    "sharp_expected_gap_bound",
    "slow_distance",
    "smallest_eigenvalue_bound",
    "source_of",
    "sources_of",
    "spread_law",
    "stationary_gap",
    "stationary_gap_squared",
    "stationary_log_gap",
    "stationary_wasserstein",
    "typical_spectrum",
    "unconstrained_jacobians_optimum",
    "wasserstein_bound",
    "wasserstein_bound_of_gap",
    "wasserstein_to_gaussian",
    "weakest_gap_bound",
    "weingarten",
    "without_direction",
    "without_mean",
]
