"""Jacobians of residual blocks and layers: whether blocks align (RA1 to RA4 of li2023), how far from isometry."""
