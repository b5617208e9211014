"""Orthogonal weights: exact moments of Haar matrices, and batch norm with Haar weights."""
