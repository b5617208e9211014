"""Residual networks: alignment of their Jacobians, and gradients through normalized residual layers."""
