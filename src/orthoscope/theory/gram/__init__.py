"""Batch norm in wide networks: fixed points of Gram matrices, growth of gradients, effect on isometry."""
