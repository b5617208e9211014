"""Contents compared with what the catalog says they are."""

import gzip
import hashlib
import zlib
from collections.abc import Callable
from io import BufferedIOBase
from pathlib import Path

from orthoscope.data.catalog import DataFile
from orthoscope.data.compression import opened

_PIECE_BYTES = 1 << 20


def copy_checked(
    source: BufferedIOBase,
    file: DataFile,
    sink: BufferedIOBase | None = None,
    report: Callable[[int], None] | None = None,
) -> bool:
    """Read `source` through, into `sink` if there is one, and say whether it is `file`.

    `report` is told the size of every piece. Reading stops one byte after the expected end, so a
    hostile compressed file cannot fill the disk.
    """
    digest, left = hashlib.sha256(), file.size + 1
    while piece := source.read(min(_PIECE_BYTES, left)):
        left -= len(piece)
        digest.update(piece)
        if sink is not None:
            sink.write(piece)
        if report is not None:
            report(len(piece))
    return left == 1 and digest.hexdigest() == file.sha256


def is_genuine(path: Path, file: DataFile, report: Callable[[int], None] | None = None) -> bool:
    """Whether the file at `path`, plain or compressed, has the contents of `file`."""
    try:
        with opened(path) as source:
            return copy_checked(source, file, report=report)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return False
