"""A whole random network, from its hyperparameters to signals and gradients at every layer.

`propagation` runs through the layers (`layers`), each of which changes a `Signal` (`signals`): by expectations over
Gaussian pre-activations (`layer_moments`), or over a sphere after batch norm (`batch_normalized`, `sphere_layer`), with
the noise of finite width (`finite_width_noise`). `spectrum` turns signals into ranks and gaps, `long_run` gives limits.
"""

from orthoscope.theory.network.hyperparameters import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    LostSignal,
    NoTheory,
    gaussian_inputs,
)
from orthoscope.theory.network.layers import LayerSignals
from orthoscope.theory.network.long_run import long_run, sources_of
from orthoscope.theory.network.propagation import Propagation, propagate, propagated_layers
from orthoscope.theory.network.signals import Signal
from orthoscope.theory.network.spectrum import (
    effective_rank,
    gap_of_overlaps,
    isometry_gap_of_overlaps,
    spread_law,
    typical_spectrum,
)

__all__ = [
    "Hyperparameters", "Inputs", "LayerSignals", "LinearLaw", "LostSignal", "NoTheory", "Propagation", "Signal",
    "effective_rank", "gap_of_overlaps", "gaussian_inputs", "isometry_gap_of_overlaps", "long_run", "propagate",
    "propagated_layers", "sources_of", "spread_law", "typical_spectrum",
]  # fmt: skip
