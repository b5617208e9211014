"""Batch norm in wide networks: where Gram matrices end, how gradients grow, what normalisation does to isometry."""
