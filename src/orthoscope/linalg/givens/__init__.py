"""Orthonormal frames as products of plane rotations, every pair of coordinates once, and the angles of a frame."""
