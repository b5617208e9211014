"""Orthonormal frames as products of plane rotations, every pair of coordinates once, and the angles of a frame."""

from orthoscope.linalg.givens.elimination import givens_coordinates
from orthoscope.linalg.givens.frame import givens_count, givens_frame, givens_pairs

__all__ = ["givens_coordinates", "givens_count", "givens_frame", "givens_pairs"]
