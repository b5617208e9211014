"""A whole network, from its hyper-parameters to the signals and gradients at every layer."""

from orthoscope.theory.network.citations import sources_of
from orthoscope.theory.network.hyperparameters import (
    Hyperparameters,
    Inputs,
    LinearLaw,
    LostSignal,
    NoTheory,
    gaussian_inputs,
)
from orthoscope.theory.network.layers import Layer
from orthoscope.theory.network.long_run import long_run
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
    "Hyperparameters",
    "Inputs",
    "Layer",
    "LinearLaw",
    "LostSignal",
    "NoTheory",
    "Propagation",
    "Signal",
    "effective_rank",
    "gap_of_overlaps",
    "gaussian_inputs",
    "isometry_gap_of_overlaps",
    "long_run",
    "propagate",
    "propagated_layers",
    "sources_of",
    "spread_law",
    "typical_spectrum",
]
