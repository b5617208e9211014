"""Orthogonal weights: moments of Haar matrices in exact rationals, and batch norm on top of them."""
