"""Jacobians of residual branches and of layers: found by themselves, as operators, with their singular triplets."""
