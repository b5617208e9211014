"""Where a network ends if it is deep enough: the fixed point of its overlaps, and the growth of its gradients."""

import math
from collections.abc import Iterator

from orthoscope.findings import Prediction
from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.kernel.convergence import contraction_rate
from orthoscope.theory.kernel.kernel_map import kernel_map
from orthoscope.theory.network.propagation import Propagation, propagate
from orthoscope.theory.sources import Source, source_of

_CASES = {
    1: "samples become orthogonal",
    2: "samples become one direction, geometrically",
    3: "samples become one direction, as a power of depth",
    4: "samples keep an angle",
}


def long_run(found: Propagation) -> tuple[Prediction, ...]:
    """What the theorems say of the layers to come, at the size that signals have reached."""
    network, last = found.network, found.layers[-1]
    predictions: list[Prediction] = []
    if network.norm.startswith("batch") and network.residual_scale is None:
        predictions.append(_prediction("overlap", last.output.overlap, "mean cosine", source_of(gram_fixed_point)))
    elif network.residual_scale is None and network.hidden.bias_variance == 0:
        predictions += _kernel_limit(found)
    if math.isfinite(last.to_input):
        unit = "log-gradient per layer toward the input"
        # Integrals are right to 1e-12: what is smaller is zero.
        growth = round(last.to_input / 2, 12) + 0.0
        predictions.append(_prediction("gradient growth", growth, unit, source_of(propagate)))
    return tuple(predictions)


def _kernel_limit(found: Propagation) -> Iterator[Prediction]:
    network = found.network
    normalised = network.norm != "none" and network.order == "norm-activation"
    variance = 1.0 if normalised else found.layers[-1].linear.mean_square
    kernel = kernel_map(network.activation, network.norm, network.order, input_variance=variance)
    if kernel.case is None:
        return
    theorem = source_of(contraction_rate)
    words = f"mean cosine: case {kernel.case}, {_CASES[kernel.case]}"
    yield _prediction("overlap", kernel.fixed_point, words, theorem)
    if kernel.rate < 1:
        yield _prediction("rate", kernel.rate, "factor a layer, at worst, on the way there", theorem)


def _prediction(name: str, value: float, unit: str, source: Source) -> Prediction:
    return Prediction(name, value, unit, str(source), source.assumes)
