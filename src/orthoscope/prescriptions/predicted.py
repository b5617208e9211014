"""What theory expects of a change, where it covers the network."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.evidence import fitted_slope
from orthoscope.diagnosis.expectations import Expectation, expected_numbers
from orthoscope.prescriptions.prescription import Effect


def foreseen(diagnosis: Diagnosis, **changed: Any) -> Callable[[], Effect]:
    """The effect of other arguments, worked out once, when it is first asked for."""
    return cache(lambda: predicted_effect(diagnosis, **changed))


def predicted_effect(diagnosis: Diagnosis, **changed: Any) -> Effect:
    """Gap after the last hidden layer and slope of the log-gradient, were the network made with other arguments."""
    expected = diagnosis.expected
    if expected.refusal:
        return Effect(reason=f"not predicted: {expected.refusal}")
    other = Expectation("", {**expected.arguments, **changed}, expected.inputs, expected.output_gradient)
    if other.reason:
        return Effect(reason=f"not predicted: {other.reason}")
    depth, width = expected.arguments["depth"], expected.arguments["width"]
    numbers = expected_numbers(other.signals[f"layers.{depth - 1}"], diagnosis.layers[0].samples, width)
    slope = fitted_slope(list(other.log_gradients.values())) if other.log_gradients else math.nan
    return Effect(numbers.gap, slope)
