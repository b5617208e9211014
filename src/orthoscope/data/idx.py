"""IDX, the format of MNIST: a magic number, the sizes, then the values, big-endian and nothing else."""

import gzip
import math
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from orthoscope.data.compression import opened

# The third byte of the magic number.
_VALUE_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> Tensor:
    """The one array in an IDX file, plain or, when its name ends in `.gz`, compressed.

    The file must end exactly where the header says it does.
    """
    try:
        with opened(path) as file:
            return _parse(file, path)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error})") from error


def _parse(file: BufferedIOBase, path: Path) -> Tensor:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _VALUE_TYPES:
        raise ValueError(f"{path} is not an IDX file: it begins with {magic.hex(' ') or 'nothing'}")
    dimensions = magic[3]
    header = file.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise ValueError(f"{path} ends inside its header, which announces {dimensions} dimensions")
    shape = struct.unpack(f">{dimensions}I", header)
    dtype = np.dtype(_VALUE_TYPES[magic[2]])
    expected = math.prod(shape) * dtype.itemsize
    # One byte more than announced, to notice what follows; never more, whatever a .gz unpacks to.
    values = _read_at_most(file, expected + 1)
    if len(values) != expected:
        found = "more" if len(values) > expected else f"only {len(values)}"
        raise ValueError(f"{path} announces {shape}, which is {expected} bytes, but holds {found}")
    array = np.frombuffer(values, dtype).reshape(shape)
    return torch.from_numpy(array.astype(dtype.newbyteorder("="), copy=dtype.itemsize > 1))


def _read_at_most(file: BufferedIOBase, limit: int) -> bytearray:
    """Up to `limit` bytes, in pieces: a header that lies about its size must not reserve that memory."""
    values = bytearray()
    while piece := file.read(min(limit - len(values), 1 << 24)):
        values += piece
    return values
