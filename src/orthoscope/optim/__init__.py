"""Optimizers that keep weights, or make updates, orthogonal.

- `RiemannianSGD`, `RiemannianAdam`, `Landing`: weights on the Stiefel manifold, by `stiefel_parameter_groups`.
- `Muon`: orthogonalized updates, by `muon_parameter_groups` and `MatrixView`.
- `project_`: the nearest orthonormal weight; `clip_adaptively_`: gradients bounded relative to their weights.
"""

from orthoscope.optim.adaptive_clipping import clip_adaptively_
from orthoscope.optim.landing import Landing
from orthoscope.optim.manifold_groups import project_, stiefel_parameter_groups
from orthoscope.optim.muon import MatrixView, Muon, muon_parameter_groups
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
