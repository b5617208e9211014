"""Files that may or may not be compressed."""

import gzip
from pathlib import Path
from typing import BinaryIO, cast


def opened(path: Path) -> BinaryIO:
    """The contents of a file, uncompressed on the way when its name ends in `.gz`."""
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
