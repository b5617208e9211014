"""Jacobians of residual branches, which are found automatically, and of layers, as operators with singular triplets."""
