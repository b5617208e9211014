"""Kernel maps: the cosine of two samples after one wide layer, its limit with depth, and the rate of convergence."""
