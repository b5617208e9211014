r"""Theory: predictions from hyperparameters, before a network is built; every function carries its source.

* `kernel`: kernel maps of activations, without batch norm: cosines of two samples from layer to layer.
* `gram`: batch norm in wide networks: Gram matrices, gradient growth, isometry.
* `chain`: linear layers with batch norm, as products of random matrices.
* `haar`: orthogonal weights, with exact moments.
* `residual`: alignment of residual blocks, and gradients through normalized ones.
* `network`: a whole network, layer by layer, from its hyperparameters.
* `quadrature`: expectations over one and two Gaussians; `sources`: bibliography and the `source` decorator.

An argument has one meaning in all functions; a function whose argument has another, or needs more words, says so.

Args:
    activation: $\phi$: a name of `activations.ACTIVATIONS`, a module, or an elementwise function of tensors.
    at_one: $\kappa(1)$.
    at_zero: $\kappa(0)$.
    batch: Number of samples $n$.
    centered: Whether batch norm subtracts the mean, as `nn.BatchNorm1d` does.
    decay: Weight decay $\lambda$, positive.
    depth: Number of layers $L$ or $\ell$.
    dimension: Size $d$ of a matrix, or entries $m$ of a vector.
    gain: $\alpha$ of the shaped activation $\phi(\alpha x)/\alpha$.
    gap: Isometry gap $\psi$ before the layer.
    generator: Source of random numbers.
    initial_gap: Isometry gap $\psi_0$ of the input.
    input_norm: $\|\Delta x\|$.
    inputs: Statistics of the batch.
    landmarks: Values, slopes and fixed point of a kernel map (`KernelMap.landmarks`).
    loss_lipschitz: Lipschitz constant of the loss.
    network: Hyper-parameters of the network.
    norms: Lengths $a$ of the vectors that are normalized.
    orders: Number $K$ of Hermite polynomials.
    overlap: Cosine $\rho$ of two samples, or its mean over pairs.
    overlap_variance: Variance $v$ of the cosines over pairs.
    samples: Number of samples $n$.
    singular_values: $\sigma$ of the representations.
    slope_at_one: $\kappa'(1)$; may be infinite.
    slope_at_zero: $\kappa'(0)$.
    spectrum: Eigenvalues $\lambda$ of $XX^\top$.
    spread: Variance $y$ of the eigenvalues over their squared mean.
    steps: Number of layers.
    units: Units $d$ of the layer; None for many.
    weakest_energy: $\alpha$, a lower bound of the smallest squared singular value in every layer.
    weakest_gap: $\hat V$, the deficit $1/n - \sigma_n^2$ of the weakest direction.
    width: Units $d$ of every layer.
"""

from orthoscope.theory.chain.batch_norm import (
    gap_contraction,
    gap_squared_after_layer,
    gap_trajectory,
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
    stationary_wasserstein,
    wasserstein_bound,
    wasserstein_bound_of_gap,
    wasserstein_to_gaussian,
    weakest_gap_bound,
)
from orthoscope.theory.chain.spectrum import (
    collapse_rate,
    collapsed_gap,
    iterative_gap,
    iterative_singular_values,
    lyapunov_exponents,
)
from orthoscope.theory.gram.dynamics import gram_condition, gram_fixed_point, gram_trajectory
from orthoscope.theory.gram.finite_width import GramResponse, finite_width_gram_error, gram_response, linear_gram_error
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.gram.isometry import (
    gaussian_isometry_gap,
    gram_isometry,
    isometry_gain,
    isometry_gain_bound,
    isometry_gap_floor,
)
from orthoscope.theory.haar.batch_norm import (
    batch_norm_jacobian_bound,
    batch_norm_log_jacobian_bound,
    drift_gradient_log_norm_bound,
    eigenvalue_radius,
    expected_haar_gap,
    gap_decay_depth,
    gradient_log_norm_bound,
    haar_contraction,
    haar_gap_bound,
    haar_isometry_gain,
    haar_variance_gap_bound,
    hitting_time_bound,
    isometry_gap_bound,
    next_gap_bound,
    second_phase_bound,
    smallest_eigenvalue_bound,
)
from orthoscope.theory.haar.moments import haar_moment, random_parameter_independence, weingarten
from orthoscope.theory.kernel.convergence import (
    contraction_rate,
    convergence_case,
    distance_bound,
    normalized_rate,
    slow_distance,
)
from orthoscope.theory.kernel.hermite import hermite_coefficients, hermite_polynomials, hermite_table
from orthoscope.theory.kernel.kernel_map import KernelMap, gain_of_slope, kernel_map, leaky_slope
from orthoscope.theory.network.hyperparameters import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    LostSignal,
    NoTheory,
    gaussian_inputs,
)
from orthoscope.theory.network.layers import Signal
from orthoscope.theory.network.propagation import Propagation, long_run, propagate, propagated_layers, sources_of
from orthoscope.theory.network.spectrum import (
    effective_rank,
    gap_of_overlaps,
    isometry_gap_of_overlaps,
    spread_law,
    typical_spectrum,
)
from orthoscope.theory.residual.alignment import (
    JacobiansOptimum,
    aligned_representations,
    equispacing_singular_values,
    rotated_trace_supremum,
    unconstrained_jacobians_optimum,
)
from orthoscope.theory.residual.normalized_gradient import (
    NormalizedResidualGradients,
    gradient_before_normalization,
    normalized_residual_gradients,
    without_direction,
    without_mean,
)
from orthoscope.theory.sources import BIBLIOGRAPHY, Source, source_of

__all__ = [
    "BIBLIOGRAPHY", "GramResponse", "Hyperparameters", "Inputs", "JacobiansOptimum", "KernelMap", "LinearLaw",
    "LostSignal", "NoTheory", "NormalizedResidualGradients", "Propagation", "Signal", "Source",
    "aligned_representations", "average_instability_bound", "batch_norm_jacobian_bound",
    "batch_norm_log_jacobian_bound", "collapse_rate", "collapsed_gap", "contraction_rate", "convergence_case",
    "distance_bound", "drift_gradient_log_norm_bound", "effective_rank", "eigenvalue_radius",
    "equispacing_singular_values", "expected_gap_bound", "expected_haar_gap", "finite_width_gram_error",
    "gain_of_slope", "gap_bound_of_weakest", "gap_contraction", "gap_decay_depth", "gap_of_overlaps",
    "gap_squared_after_layer", "gap_trajectory", "gaussian_inputs", "gaussian_isometry_gap",
    "gradient_before_normalization", "gradient_growth", "gradient_log_norm_bound", "gram_condition", "gram_fixed_point",
    "gram_isometry", "gram_response", "gram_trajectory", "gram_variance", "haar_contraction", "haar_gap_bound",
    "haar_isometry_gain", "haar_moment", "haar_variance_gap_bound", "hermite_coefficients", "hermite_polynomials",
    "hermite_table", "hitting_time_bound", "isometry_gain", "isometry_gain_bound", "isometry_gap_bound",
    "isometry_gap_floor", "isometry_gap_of_overlaps", "iterative_gap", "iterative_singular_values", "kernel_map",
    "leaky_slope", "linear_gram_error", "long_run", "lyapunov_exponents", "mean_field_weakest_gap_bound",
    "mean_squared_singular_values", "next_gap_bound", "normalized_rate", "normalized_residual_gradients", "propagate",
    "propagated_layers", "random_parameter_independence", "rotated_trace_supremum", "second_phase_bound",
    "sharp_expected_gap_bound", "slow_distance", "smallest_eigenvalue_bound", "source_of", "sources_of", "spread_law",
    "stationary_gap", "stationary_gap_squared", "stationary_log_gap", "stationary_wasserstein", "typical_spectrum",
    "unconstrained_jacobians_optimum", "wasserstein_bound", "wasserstein_bound_of_gap", "wasserstein_to_gaussian",
    "weakest_gap_bound", "weingarten", "without_direction", "without_mean",
]  # fmt: skip
