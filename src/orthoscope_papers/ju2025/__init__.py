"""Ju, Orthogonality in Neural Networks: Weights and Gradients, slides (2025)."""
