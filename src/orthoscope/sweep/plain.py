"""Values that JSON can carry, and the one text of each: what a run is known by, and what its checksum is taken of."""

import hashlib
import json
import math
from typing import Any

# JSON has no nan and no infinity, and a strict reader refuses a file with them: they are written {"$float": "nan"}.
MARK = "$float"


def encoded(value: Any, where: str) -> Any:
    """`value` as strict JSON carries it: tuples as lists, nan and infinities marked; TypeError names the rest."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {MARK: repr(float(value))}
    if isinstance(value, list | tuple):
        return [encoded(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str) or name == MARK:
                raise TypeError(f"{where} has the key {name!r}: use text, other than {MARK!r}, which marks nan")
        return {name: encoded(item, f"{where}[{name!r}]") for name, item in value.items()}
    raise TypeError(
        f"{where} is a {type(value).__name__}, which JSON cannot carry: "
        "use None, bool, int, float, str, and lists and dicts of them"
    )


def decoded(value: Any) -> Any:
    """What `encoded` was given, with lists for tuples."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if isinstance(value, dict):
        return float(value[MARK]) if MARK in value else {name: decoded(item) for name, item in value.items()}
    return value


def canonical(value: Any) -> str:
    """The one text of an encoded value: the order of a dict does not matter, 1 and 1.0 and true differ."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(value: Any) -> str:
    """SHA-256 of the one text of an encoded value."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()
