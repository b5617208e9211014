"""A thousand layers in few bytes: lists of alike objects as columns, so that every key is written once.

`viewer/src/documents.ts` unpacks what is packed here; nothing is rounded or left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def packed(value: Any) -> Any:
    """The same data, lists of two or more objects as `{"$table": rows, "nulls": [...], "columns": {...}}`.

    A column is `{"values": [...]}` with `at`, the rows among those that are objects, where some lack the key.
    """
    if isinstance(value, Mapping):
        return {key: packed(inner) for key, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    objects = [row for row in value if isinstance(row, Mapping)]
    if len(objects) < 2 or any(row is not None and not isinstance(row, Mapping) for row in value):
        return [packed(row) for row in value]
    table: dict[str, Any] = {"$table": len(value)}
    if len(objects) < len(value):
        table["nulls"] = [index for index, row in enumerate(value) if row is None]
    table["columns"] = {key: _column(key, objects) for key in dict.fromkeys(key for row in objects for key in row)}
    return table


def _column(key: str, objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    at = [index for index, row in enumerate(objects) if key in row]
    column: dict[str, Any] = {"values": packed([objects[index][key] for index in at])}
    return column if len(at) == len(objects) else column | {"at": at}


def script_json(value: Any) -> str:
    """Strict JSON that can stand in a script element: no `<`, so nothing in it ends or begins an element."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return content.replace("<", "\\u003c")
