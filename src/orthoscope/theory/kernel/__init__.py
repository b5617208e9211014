"""Kernel maps: what one wide layer does to the overlap of two samples, where that leads and how fast."""
