"""The image sets that the papers measure: fetched by name, checked, kept in the data directory, and read."""

from orthoscope_papers.image_sets.fetch import get
from orthoscope_papers.image_sets.folders import available, data_directory
from orthoscope_papers.image_sets.loading import load

__all__ = ["available", "data_directory", "get", "load"]
