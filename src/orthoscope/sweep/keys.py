"""What a run is known by."""

from typing import Any

from orthoscope.sweep.plain import checksum

# 128 bits: two of a billion runs share a key with probability 1e-21.
DIGITS = 32


def run_key(function: str, version: str, config: Any) -> str:
    """The first 32 hexadecimal digits of SHA-256 of the JSON text of [function, version, encoded config]."""
    return checksum([function, version, config])[:DIGITS]
