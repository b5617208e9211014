"""Manifolds of weights: matrices with orthonormal columns."""

from orthoscope.manifolds.stiefel import Stiefel

__all__ = ["Stiefel"]
