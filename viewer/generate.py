"""Writes what is generated from the dataclasses: schema.json and the types of the page's script.

`make viewer` runs it first; a test compares the committed files.
"""

import json
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from enum import Enum
from functools import reduce
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from orthoscope.findings import Symptom
from orthoscope.report.document import KINDS
from orthoscope.report.document.conversion import Declared, Part, declared_fields
from orthoscope.report.document.quantities import QUANTITIES, Quantity

_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}
_WIDTH = 120


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of every document, told apart by their `schema` field."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "orthoscope",
        "title": "Documents of Orthoscope",
        "description": "One of: " + "; ".join(f"{name}: {_sentence(kind)}" for name, kind in KINDS.items()),
        "type": "object",
        "properties": {"schema": {"enum": list(KINDS)}},
        "required": ["schema"],
        "allOf": [
            {
                "if": {"properties": {"schema": {"const": name}}, "required": ["schema"]},
                "then": {"$ref": f"#/$defs/{kind.__name__}"},
            }
            for name, kind in KINDS.items()
        ],
        "$defs": {kind.__name__: _definition(kind) for kind in kinds()},
    }


def _definition(kind: type[Part | Enum]) -> dict[str, Any]:
    if issubclass(kind, Enum):
        return {"description": _sentence(kind), "enum": [str(member) for member in kind]}
    declared = declared_fields(kind)
    return {
        "description": _sentence(kind),
        "type": "object",
        "properties": {field.name: _property(field) for field in declared},
        "required": [field.name for field in declared if not field.optional],
        "additionalProperties": False,
    }


def _property(field: Declared) -> dict[str, Any]:
    hint = _some(field.hint) if field.optional else field.hint
    described = {"description": field.description} if field.description else {}
    keywords = dict(field.keywords)
    if "items" in keywords:
        keywords["items"] = _schema_of(hint)["items"] | keywords["items"]
    return described | _schema_of(hint) | keywords


def _schema_of(hint: Any) -> dict[str, Any]:
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    if isinstance(hint, type):
        return {"$ref": f"#/$defs/{hint.__name__}"}
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Literal:
        return {"const": inner[0]} if len(inner) == 1 else {"enum": list(inner)}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(inner[0])}
    if origin in (Union, UnionType):
        return _union(inner)
    return {"type": "object", "additionalProperties": _schema_of(inner[1])}


def _union(alternatives: tuple[Any, ...]) -> dict[str, Any]:
    """Return one list of plain types where it is enough; an integer is a number."""
    chosen = [hint for hint in alternatives if not (hint is int and float in alternatives)]
    if all(hint in _PLAIN for hint in chosen):
        names = [_PLAIN[hint] for hint in chosen]
        return {"type": names[0] if len(names) == 1 else names}
    return {"anyOf": [_schema_of(hint) for hint in chosen]}


def _some(hint: Any) -> Any:
    """Return X of `X | None`."""
    return reduce(operator.or_, (one for one in get_args(hint) if one is not NoneType))


def _sentence(kind: type) -> str:
    return (kind.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")


def kinds(documents: Iterable[type[Part]] = KINDS.values()) -> list[type[Part | Enum]]:
    """Return every class that some kinds of documents hold, each after those that it is made of."""
    found: dict[type[Part | Enum], None] = {}

    def visit(hint: Any) -> None:
        if hint in found or hint in _PLAIN:
            return
        if isinstance(hint, type):
            for field in declared_fields(hint) if issubclass(hint, Part) else ():
                visit(field.hint)
            found[hint] = None
        for inner in get_args(hint):
            visit(inner)

    for kind in documents:
        visit(kind)
    return list(found)


def types() -> str:
    """Return the types of the documents that the page draws, and the table of quantities, in TypeScript."""
    drawn = [kind for kind in KINDS.values() if kind.drawn]
    parts = [
        "// Generated from src/orthoscope/report/document by `make viewer`: do not edit.",
        *(_type(kind) for kind in kinds(drawn)),
        "/** What the page can draw. */\nexport type AnyDocument = "
        + " | ".join(kind.__name__ for kind in drawn)
        + ";",
        _symptom_words(),
        *_quantity_types(),
    ]
    return "\n\n".join(parts) + "\n"


def _type(kind: type[Part | Enum]) -> str:
    comment = f"/** {_sentence(kind)} */\n"
    if issubclass(kind, Enum):
        return f"{comment}export type {kind.__name__} = {' | '.join(json.dumps(str(member)) for member in kind)};"
    lines = [line for field in declared_fields(kind) for line in _type_lines(field)]
    return f"{comment}export interface {kind.__name__} {{\n" + "\n".join(lines) + "\n}"


def _type_lines(field: Declared) -> Iterator[str]:
    if field.description:
        yield f"  /** {field.description} */"
    name = f"{field.name}?" if field.optional else field.name
    yield f"  {name}: {_written(_some(field.hint) if field.optional else field.hint)};"


def _written(hint: Any) -> str:
    if hint in _PLAIN:
        return "number" if hint is int else _PLAIN[hint]
    if isinstance(hint, type):
        return hint.__name__
    inner, origin = get_args(hint), get_origin(hint)
    if origin is Literal:
        return " | ".join(map(json.dumps, inner))
    if origin is tuple:
        one = _written(inner[0])
        return f"({one})[]" if "|" in one else f"{one}[]"
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(_written, inner)))
    return f"Record<string, {_written(inner[1])}>"


def _symptom_words() -> str:
    words = json.dumps({str(symptom): symptom.words for symptom in Symptom})
    return f"/** Symptoms in the words of the field. */\nexport const SYMPTOM_WORDS: Record<Symptom, string> = {words};"


def _quantity_types() -> Iterator[str]:
    row = {field.name: _written(field.type) for field in fields(Quantity)}
    row |= {"anchor": "string", "place": '"layer" | "sample_view" | "picture" | ""', "is_predicted": "boolean"}
    members = "\n".join(f"  {name}: {kind};" for name, kind in row.items())
    yield f"/** How a quantity is named, explained, written and drawn. */\nexport interface Quantity {{\n{members}\n}}"
    rows = (json.dumps({name: getattr(quantity, name) for name in row}, ensure_ascii=False) for quantity in QUANTITIES)
    yield "export const QUANTITIES: readonly Quantity[] = [\n" + "".join(f"  {text},\n" for text in rows) + "];"


def schema_text() -> str:
    """Return schema.json as it is committed: what is short stands on one line."""
    return _lines(schema(), "") + "\n"


def _lines(value: Any, indent: str) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, Mapping | list) or len(flat) + len(indent) <= _WIDTH - 20:
        return flat
    deeper = indent + "  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(deeper + _lines(inner, deeper) for inner in value) + f"\n{indent}]"
    entries = (f"{deeper}{json.dumps(key)}: {_lines(inner, deeper)}" for key, inner in value.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"


def generated(root: Path) -> dict[Path, str]:
    """Return the text of every generated file of the repository at `root`."""
    return {
        root / "src/orthoscope/report/schema.json": schema_text(),
        root / "viewer/src/types.ts": types(),
    }


if __name__ == "__main__":
    for path, text in generated(Path(__file__).parents[1]).items():
        path.write_text(text, encoding="utf-8")
