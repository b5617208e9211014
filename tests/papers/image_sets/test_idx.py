"""IDX files: values are read back, and files that are not exactly IDX are refused by name."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from orthoscope_papers.image_sets.loading import read_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx_bytes(array: np.ndarray) -> bytes:
    magic = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim])
    big_endian = array.astype(array.dtype.newbyteorder(">"))
    return magic + struct.pack(f">{array.ndim}I", *array.shape) + big_endian.tobytes()


anything = st.sampled_from(sorted(CODES)).flatmap(
    lambda dtype: arrays(dtype, array_shapes(min_dims=0, min_side=0, max_side=5))
)


@pytest.mark.slow
@given(array=anything, compressed=st.booleans())
def test_all_types_and_shapes_are_read_plain_and_compressed(tmp_path_factory, array, compressed):
    path = tmp_path_factory.mktemp("idx") / ("array.gz" if compressed else "array")
    path.write_bytes(gzip.compress(idx_bytes(array)) if compressed else idx_bytes(array))
    read = read_idx(path).numpy()
    assert read.dtype == array.dtype
    assert np.array_equal(read, array, equal_nan=array.dtype.kind == "f")


@pytest.fixture
def contents() -> bytes:
    return idx_bytes(np.arange(24, dtype=np.uint8).reshape(2, 3, 4))


def refused(path: Path, contents: bytes, reason: str) -> None:
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=reason) as error:
        read_idx(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize("missing", [1, 24])
def test_a_truncated_idx_file_is_refused_with_its_name(tmp_path, contents, missing):
    refused(tmp_path / "short", contents[:-missing], rf"24 bytes, but holds only {24 - missing}")


def test_bytes_after_the_end_are_refused(tmp_path, contents):
    refused(tmp_path / "long", contents + b"\0", "24 bytes, but holds more")


def test_a_file_that_ends_inside_its_header_is_refused(tmp_path, contents):
    refused(tmp_path / "headless", contents[:9], "ends inside its header")


@pytest.mark.parametrize("start", [b"", b"\0\0\x08", b"PK\x03\x04", b"\0\0\x0a\x01", b"\0\1\x08\x01"])
def test_a_wrong_magic_number_is_refused(tmp_path, contents, start):
    refused(tmp_path / "other", start + (contents[4:] if len(start) == 4 else b""), "not an IDX file")


def test_a_header_with_a_huge_size_is_refused_without_allocating(tmp_path):
    refused(tmp_path / "liar", bytes([0, 0, 0x0E, 3]) + b"\xff" * 12 + b"few", "holds only 3")


@pytest.mark.parametrize("damage", [lambda z: z[:-9], lambda z: b"plain" + z, lambda z: z[:-8] + bytes(8)])
def test_a_damaged_gzip_file_is_refused(tmp_path, contents, damage):
    refused(tmp_path / "bad.gz", damage(gzip.compress(contents)), "not a complete gzip file")


def test_a_compressed_file_that_unpacks_to_more_than_it_announces_is_refused(tmp_path, contents):
    refused(tmp_path / "bomb.gz", gzip.compress(contents + bytes(1 << 20)), "holds more")
