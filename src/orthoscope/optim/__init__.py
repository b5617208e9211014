"""Orthogonal while training."""

from orthoscope.optim.adaptive_clipping import clip_adaptively_
from orthoscope.optim.landing import Landing
from orthoscope.optim.manifold_groups import project_, stiefel_parameter_groups
from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.muon import Muon
from orthoscope.optim.muon_groups import muon_parameter_groups
from orthoscope.optim.riemannian_adam import RiemannianAdam
from orthoscope.optim.riemannian_sgd import RiemannianSGD

__all__ = [
    "Landing",
    "MatrixView",
    "Muon",
    "RiemannianAdam",
    "RiemannianSGD",
    "clip_adaptively_",
    "muon_parameter_groups",
    "project_",
    "stiefel_parameter_groups",
]
