"""Lu et al., The Orthogonality of Weight Vectors (2024)."""
