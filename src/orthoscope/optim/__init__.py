"""Orthogonal while training."""

from orthoscope.optim.landing import Landing
from orthoscope.optim.manifold_groups import project_, stiefel_parameter_groups
from orthoscope.optim.riemannian_adam import RiemannianAdam
from orthoscope.optim.riemannian_sgd import RiemannianSGD

__all__ = ["Landing", "RiemannianAdam", "RiemannianSGD", "project_", "stiefel_parameter_groups"]
