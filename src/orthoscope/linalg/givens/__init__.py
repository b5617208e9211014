"""Frames as products of plane rotations, every pair of coordinates once, and the angles of a given frame."""

from orthoscope.linalg.givens.coordinates import givens_coordinates
from orthoscope.linalg.givens.frame import givens_frame
from orthoscope.linalg.givens.order import givens_count, givens_pairs

__all__ = ["givens_coordinates", "givens_count", "givens_frame", "givens_pairs"]
