"""One forward and backward pass through any model, with every layer's representations and gradients measured."""

from orthoscope.findings import Status
from orthoscope.metrics.representations import Representation
from orthoscope.probe.attention import AttentionCall
from orthoscope.probe.experts import ExpertLoad
from orthoscope.probe.jacobians.residual import BlockJacobian, ResidualJacobians, layer_jacobians, residual_jacobians
from orthoscope.probe.layers import Layer
from orthoscope.probe.leaks import Leaks, leaks
from orthoscope.probe.record import Recording, record
from orthoscope.probe.recurrence import TimeProfile
from orthoscope.probe.trunk import Trunk, TrunkPoint

__all__ = [
    "AttentionCall",
    "BlockJacobian",
    "ExpertLoad",
    "Layer",
    "Leaks",
    "Recording",
    "Representation",
    "ResidualJacobians",
    "Status",
    "TimeProfile",
    "Trunk",
    "TrunkPoint",
    "layer_jacobians",
    "leaks",
    "record",
    "residual_jacobians",
]
