"""Files that may or may not be compressed."""

import gzip
from io import BufferedIOBase
from pathlib import Path


def opened(path: Path) -> BufferedIOBase:
    """The contents of a file, uncompressed on the way when its name ends in `.gz`."""
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")
