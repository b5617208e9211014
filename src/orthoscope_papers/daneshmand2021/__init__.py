"""Daneshmand, Joudaki & Bach, Batch Normalization Orthogonalizes Representations in Deep Random Networks (2021)."""
