"""One pass through any model, everything recorded."""

from orthoscope.probe.jacobians.residual import BlockJacobian, ResidualJacobians, layer_jacobians, residual_jacobians
from orthoscope.probe.layer import Layer, Representation, Status
from orthoscope.probe.pictures import Picture
from orthoscope.probe.recording import Recording, record

__all__ = [
    "BlockJacobian",
    "Layer",
    "Picture",
    "Recording",
    "Representation",
    "ResidualJacobians",
    "Status",
    "layer_jacobians",
    "record",
    "residual_jacobians",
]
