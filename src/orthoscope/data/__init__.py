"""Datasets: embedded digits, and synthetic samples."""

from orthoscope.data.dataset import Dataset, load
from orthoscope.data.synthetic import gaussians, images, tokens

__all__ = ["Dataset", "gaussians", "images", "load", "tokens"]
