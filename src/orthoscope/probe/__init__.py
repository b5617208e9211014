"""One forward and backward pass through any model, with every layer's representations and gradients measured."""

from orthoscope.findings import Status
from orthoscope.metrics.representations import Representation
from orthoscope.probe.jacobians.residual import BlockJacobian, ResidualJacobians, layer_jacobians, residual_jacobians
from orthoscope.probe.layers import Layer
from orthoscope.probe.record import Recording, record

__all__ = [
    "BlockJacobian",
    "Layer",
    "Recording",
    "Representation",
    "ResidualJacobians",
    "Status",
    "layer_jacobians",
    "record",
    "residual_jacobians",
]
