"""Muon: orthogonalized momentum for the matrices of a model.

- `optimizer`: `Muon`, its step, in stacks of matrices of equal shape, and its state.
- `options`: what a parameter group holds, and what a saved one must agree with.
- `groups`: `muon_parameter_groups`, the matrices of a model's layers.
- `views`: `MatrixView`, the matrices of a parameter, and the scales of their updates.
- `cost`: bytes, memory and work of a step on many processes, from shapes alone.
- `distributed`: the step on many processes.
"""

from orthoscope.optim.muon.groups import layer_views, muon_parameter_groups
from orthoscope.optim.muon.optimizer import Muon
from orthoscope.optim.muon.views import MatrixView

__all__ = ["MatrixView", "Muon", "layer_views", "muon_parameter_groups"]
