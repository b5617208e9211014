"""A whole random network, from its hyperparameters to signals and gradients at every layer.

`propagation` runs through the layers and gives their limits; each changes a `Signal` (`layers`), by expectations over
Gaussian pre-activations (`layer_moments`) or over a sphere after batch norm (`batch_normalized`, `sphere_layer`), with
the noise of finite width. `spectrum` turns signals into ranks and gaps.
"""

from orthoscope.theory.network.hyperparameters import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    LostSignal,
    NoTheory,
    gaussian_inputs,
)
from orthoscope.theory.network.layers import Signal
from orthoscope.theory.network.propagation import (
    LayerSignals,
    Propagation,
    long_run,
    propagate,
    propagated_layers,
    sources_of,
)
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
