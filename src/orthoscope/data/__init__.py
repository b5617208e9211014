"""Datasets: embedded digits, synthetic samples, and the image sets that the papers measure."""

from orthoscope.data.dataset import Dataset
from orthoscope.data.fetch import get
from orthoscope.data.folders import available, data_directory
from orthoscope.data.loading import load
from orthoscope.data.synthetic import gaussians, images, tokens

__all__ = ["Dataset", "available", "data_directory", "gaussians", "get", "images", "load", "tokens"]
