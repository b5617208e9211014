"""Which statements a prediction for a network rests on."""

from collections.abc import Callable
from typing import Any

from orthoscope.theory.gram.dynamics import gram_fixed_point
from orthoscope.theory.gram.finite_width import gram_response
from orthoscope.theory.gram.gradient_growth import gradient_growth
from orthoscope.theory.network.difference_noise import difference_noise
from orthoscope.theory.network.hyperparameters import Hyperparameters
from orthoscope.theory.network.layer_moments import layer_moments
from orthoscope.theory.network.propagation import propagate
from orthoscope.theory.network.spectrum import spread_law
from orthoscope.theory.network.sphere_noise import sphere_difference_noise
from orthoscope.theory.sources import Source, source_of


def sources_of(network: Hyperparameters) -> tuple[Source, ...]:
    """Sources and hypotheses of what `propagate` says of this network."""
    used: list[Callable[..., Any]] = [propagate, layer_moments, difference_noise, spread_law]
    if network.norm.startswith("batch"):
        used += [gram_fixed_point, gradient_growth, sphere_difference_noise]
    if network.norm == "batch":
        used.append(gram_response)
    return tuple(source_of(predictor) for predictor in used)
