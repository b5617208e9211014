"""Limits of a deep network: the fixed point of its overlaps, the growth of its gradients, and their sources."""

import math
from collections.abc import Callable, Iterator
from typing import Any

from orthoscope.findings import Prediction
from orthoscope.theory.gram.dynamics import fixed_point_entries, gram_fixed_point
from orthoscope.theory.gram.finite_width import gram_response
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.kernel.convergence import contraction_rate
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope.theory.network._finite_width_noise import difference_noise, sphere_difference_noise
from orthoscope.theory.network._layer_moments import layer_moments
from orthoscope.theory.network.hyperparameters import Hyperparameters
from orthoscope.theory.network.propagation import Propagation, propagate
from orthoscope.theory.network.spectrum import spread_law
from orthoscope.theory.sources import Source, source_of

_CASES = {
    1: "samples become orthogonal",
    2: "samples become parallel, exponentially in depth",
    3: "samples become parallel, as a power of depth",
    4: "samples keep an angle",
}


def long_run(found: Propagation) -> tuple[Prediction, ...]:
    """Predictions of the theorems for further layers, at the variance that signals have reached.

    Empty where there is no limit: with skip connections gradients grow ever more slowly. A single layer has no gradient
    growth, because its number of inputs may differ from the width.

    Args:
        found: From `propagate`.
    """
    network = found.network
    if network.residual_scale is not None:
        return ()
    predictions: list[Prediction] = []
    if network.norm.startswith("batch"):
        predictions += _gram_limit(found)
    elif network.hidden.bias_variance == 0:
        predictions += _kernel_limit(found)
    predictions += _gradient_limit(found)
    return tuple(predictions)


def _gram_limit(found: Propagation) -> Iterator[Prediction]:
    """The fixed point of batch norm; biases change it unless batch norm is centered."""
    network, centered = found.network, found.network.norm == "batch"
    if network.hidden.bias_variance == 0 or centered:
        diagonal, off = fixed_point_entries(network.activation, found.inputs.samples, centered)
        yield _prediction("overlap", off / diagonal, "mean cosine", source_of(gram_fixed_point))


def _gradient_limit(found: Propagation) -> Iterator[Prediction]:
    network, last = found.network, found.layers[-1]
    unit = "e-folds per layer toward the input"
    if network.norm == "batch-uncentered":
        # Not the growth at the last layer, which may be far from the fixed point.
        if network.hidden.bias_variance == 0 and last.mixing is not None:
            growth = gradient_growth(found.inputs.samples, centered=False, activation=network.activation)
            yield _prediction("gradient growth", growth, unit, source_of(gradient_growth))
    elif len(found.layers) > 1 and math.isfinite(last.to_input):
        # Integrals are accurate to 1e-12: smaller values are 0.
        growth = round(last.to_input / 2, 12) + 0.0
        yield _prediction("gradient growth", growth, unit, source_of(propagate))


def _kernel_limit(found: Propagation) -> Iterator[Prediction]:
    network = found.network
    normalized = network.norm != "none" and network.order == "norm-activation"
    variance = 1.0 if normalized else found.layers[-1].linear.mean_square
    kernel = kernel_map(network.activation, network.norm, network.order, input_variance=variance)
    if kernel.case is None:
        return
    theorem = source_of(contraction_rate)
    words = f"mean cosine: {_CASES[kernel.case]}"
    yield _prediction("overlap", kernel.fixed_point, words, theorem)
    if kernel.rate < 1:
        yield _prediction(
            "contraction rate",
            kernel.rate,
            "the distance to that overlap shrinks by this factor per layer, or faster",
            theorem,
        )


def _prediction(name: str, value: float, unit: str, source: Source) -> Prediction:
    return Prediction(name, value, unit, str(source), source.assumes)


def sources_of(network: Hyperparameters) -> tuple[Source, ...]:
    """Sources and hypotheses behind `propagate` for this network."""
    used: list[Callable[..., Any]] = [propagate, layer_moments, difference_noise, spread_law]
    if network.norm.startswith("batch"):
        used += [gram_fixed_point, gradient_growth, sphere_difference_noise]
    if network.norm == "batch":
        used.append(gram_response)
    return tuple(source_of(predictor) for predictor in used)
