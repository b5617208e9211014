"""Residual networks: alignment of their Jacobians, and gradients through normalised residual layers."""
