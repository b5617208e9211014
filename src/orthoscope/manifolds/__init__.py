"""Where weights may live."""

from orthoscope.manifolds.stiefel import Stiefel

__all__ = ["Stiefel"]
