"""Documents to strict JSON data and back, by reflection over the dataclasses; bad data gets one sentence.

A field is declared as `name: Annotated[type, "one sentence", {JSON Schema keywords}]`; the keywords are optional.
A trailing underscore, for words that Python reserves, is not part of the JSON name. A field whose default is None
is left out of the JSON while it is None; every other field is always written.
"""

import base64
import binascii
import math
import operator
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from functools import partial
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from orthoscope.report.document import Document

Number = int | float  # JSON has one kind: a writer may turn 1.0 into 1


KINDS: "dict[str, type[Part]]" = {}  # kinds of documents, by schema


@dataclass(frozen=True, kw_only=True)
class Part:
    """Base of every document and of every object inside one.

    When it is made, a number that is not finite becomes None or, within a mapping, is left out; lists become tuples.
    A class with a `schema` is a kind of document; `drawn=True` if there are views of it.
    """

    drawn = False

    def __init_subclass__(cls, drawn: bool = False) -> None:
        cls.drawn = drawn
        if "schema" in vars(cls):
            KINDS[vars(cls)["schema"]] = cls

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            defined = _defined(value)
            if defined is not value:
                object.__setattr__(self, name, defined)


P = TypeVar("P", bound=Part)


@dataclass(frozen=True)
class Declared:
    """A field of a document as it is declared."""

    attribute: str
    name: str  # in JSON
    hint: Any
    description: str
    keywords: Mapping[str, Any]  # further ones of JSON Schema
    optional: bool  # left out of the JSON while it is None


_declarations: dict[type[Part], tuple[Declared, ...]] = {}
_readers: dict[type[Part], "_Reader"] = {}


def declared_fields(kind: type[Part]) -> tuple[Declared, ...]:
    """Return the fields of a document class, in order."""
    if kind not in _declarations:
        hints = get_type_hints(kind, include_extras=True)
        _declarations[kind] = tuple(_declared(field, hints[field.name]) for field in fields(kind))
    return _declarations[kind]


def _declared(field: "Field[Any]", hint: Any) -> Declared:
    description, keywords = "", {}
    if get_origin(hint) is Annotated:
        hint, *extras = get_args(hint)
        description = next((extra for extra in extras if isinstance(extra, str)), "")
        keywords = next((extra for extra in extras if isinstance(extra, dict)), {})
    optional = field.default is None and field.default is not MISSING
    return Declared(field.name, field.name.rstrip("_"), hint, description, keywords, optional)


def as_document(content: Any) -> "Document":
    """Return a document that has views as its dataclass: itself, or read from its JSON data.

    Raises:
        ValueError: If it has no schema that this version draws, or does not fit its schema.
    """
    if isinstance(content, Part) and content.drawn:
        return content  # type: ignore[return-value]
    schema = content.get("schema") if isinstance(content, Mapping) else None
    drawn = {name: kind for name, kind in KINDS.items() if kind.drawn}
    known = {name.partition("/")[0]: kind for name, kind in drawn.items()}
    kind = known.get(schema.partition("/")[0]) if isinstance(schema, str) else None
    if kind is None:
        raise ValueError(f"cannot draw a document of schema {schema!r}: this version draws {', '.join(drawn)}")
    return from_data(kind, content)  # type: ignore[return-value]


def copied(kind: type[P], source: object, /, **others: Any) -> P:
    """Return the part of a document whose fields are the attributes of `source` with their names, and `others`."""
    names = (field.attribute for field in declared_fields(kind) if field.attribute not in {"schema", *others})
    return kind(**{name: getattr(source, name) for name in names if hasattr(source, name)}, **others)


def finite(value: Number | None) -> Number | None:
    """Return the number, or None where it is undefined or infinite."""
    return value if value is not None and math.isfinite(value) else None


def _defined(value: Any) -> Any:
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, list | tuple):
        return tuple(map(_defined, value))
    if isinstance(value, Mapping):
        return {key: known for key, one in value.items() if (known := _defined(one)) is not None}
    return value


def to_data(value: Any) -> Any:
    """Convert a document to dicts, lists, text and numbers: what `json.dumps(..., allow_nan=False)` accepts."""
    if isinstance(value, Part):
        written = ((field, getattr(value, field.attribute)) for field in declared_fields(type(value)))
        return {field.name: to_data(part) for field, part in written if part is not None or not field.optional}
    if isinstance(value, list | tuple):
        return [to_data(part) for part in value]
    if isinstance(value, Mapping):
        return {key: to_data(part) for key, part in value.items()}
    return str(value) if isinstance(value, Enum) else value


def from_data(kind: type[P], data: Any) -> P:
    """Read a document class from JSON data.

    Raises:
        ValueError: If the data does not fit; one sentence names the place, what is there and what is expected.
    """
    try:
        document: P = _object_reader(kind)(data)
    except _Misfit as misfit:
        expected = getattr(kind, "schema", kind.__name__)
        raise ValueError(f"this is no document of {expected}: {misfit}") from None
    return document


class _Misfit(Exception):  # noqa: N818 - it becomes a ValueError once its place is known
    """What does not fit, and where: the place is put together on the way out."""

    def __init__(self, problem: str) -> None:
        self.place, self.problem = "", problem

    def __str__(self) -> str:
        return f"{self.place or 'it'} {self.problem}"


_Reader = Callable[[Any], Any]


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: isinstance(value, int) and _is_number(value), "a whole number"),
    Number: (_is_number, "a number that JSON can hold"),
    NoneType: (lambda value: value is None, "null"),
}


def _require(fits: bool, value: Any, expected: str) -> None:
    if not fits:
        raise _Misfit(f"is {reprlib.repr(value)}, expected {expected}")


def _reader(hint: Any) -> _Reader:
    """Return the function that checks and converts a value of this type."""
    inner = get_args(hint)
    if hint in _PLAIN:
        return _plain_reader(*_PLAIN[hint], convert=lambda value: value)
    if isinstance(hint, type) and issubclass(hint, Part):
        return _object_reader(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _plain_reader(*_one_of([str(member) for member in hint]), convert=hint)
    if get_origin(hint) is Literal:
        return _plain_reader(*_one_of(inner), convert=lambda value: value)
    if get_origin(hint) in (Union, UnionType):
        return _optional_reader(inner)
    if get_origin(hint) is tuple:
        return _list_reader(_reader(inner[0]))
    return _mapping_reader(_reader(inner[1]))


def _one_of(words: Iterable[str]) -> tuple[Callable[[Any], bool], str]:
    known = tuple(words)
    return lambda value: isinstance(value, str) and value in known, f"one of {', '.join(map(repr, known))}"


def _plain_reader(fits: Callable[[Any], bool], expected: str, convert: _Reader) -> _Reader:
    def read_plain(value: Any) -> Any:
        _require(fits(value), value, expected)
        return convert(value)

    return read_plain


def _optional_reader(alternatives: tuple[Any, ...]) -> _Reader:
    """Return the reader of `X | None`; `int | float | None` is a number or null."""
    some = tuple(hint for hint in alternatives if hint is not NoneType)
    read = _reader(Number if set(some) == {int, float} else some[0])
    return lambda value: None if value is None else read(value)


def _within(place: str | int, read: _Reader, value: Any) -> Any:
    """Read what is at a place, a field or an index, and say so if it does not fit."""
    try:
        return read(value)
    except _Misfit as misfit:
        outer = f"[{place}]" if isinstance(place, int) else place
        dot = "." if misfit.place and not misfit.place.startswith("[") else ""
        misfit.place = f"{outer}{dot}{misfit.place}"
        raise


def _list_reader(read: _Reader) -> _Reader:
    def read_list(value: Any) -> tuple[Any, ...]:
        _require(isinstance(value, list | tuple), value, "a list")
        return tuple(_within(index, read, one) for index, one in enumerate(value))

    return read_list


def _mapping_reader(read: _Reader) -> _Reader:
    def read_mapping(value: Any) -> dict[str, Any]:
        _require(isinstance(value, Mapping), value, "an object")
        return {name: _within(str(name), read, one) for name, one in value.items()}

    return read_mapping


def _object_reader(kind: type[Part]) -> _Reader:
    if kind in _readers:
        return _readers[kind]
    known = {field.name: field for field in declared_fields(kind)}
    readers = {name: _reader(field.hint) for name, field in known.items()}
    required = [name for name, field in known.items() if not field.optional]

    def read_object(value: Any) -> Any:
        _require(isinstance(value, Mapping), value, "an object")
        if "schema" in known:
            _require_schema(str(kind.schema), value.get("schema"))  # type: ignore[attr-defined]
        for name in required:
            if name not in value:
                raise _Misfit(f"has no field {name!r}, expected one in this version")
        for name in value:
            if name not in known:
                raise _Misfit(f"has a field {name!r}, expected none of that name in this version")
        found = {name: _within(name, readers[name], one) for name, one in value.items()}
        for name, one in found.items():
            if known[name].keywords:
                _within(name, partial(_require_keywords, keywords=known[name].keywords), one)
        try:
            return kind(**{known[name].attribute: one for name, one in found.items()})
        except ValueError as error:  # fields that contradict each other
            raise _Misfit(str(error)) from None

    _readers[kind] = read_object
    return read_object


def _require_schema(expected: str, found: Any) -> None:
    if found == expected:
        return
    name, _, version = expected.partition("/")
    match = re.fullmatch(rf"{re.escape(name)}/(\d+)", found) if isinstance(found, str) else None
    if match is None:
        raise _Misfit(f"has the schema {reprlib.repr(found)}, expected {expected!r}")
    if int(match[1]) < int(version):
        raise _Misfit(f"was written by an older version ({found}; this one reads {expected}): diagnose again")
    raise _Misfit(f"was written by a newer version ({found}; this one reads {expected}): update Orthoscope")


_KEYWORDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "minimum": (operator.ge, "at least {}"),
    "exclusiveMinimum": (operator.gt, "more than {}"),
    "maximum": (operator.le, "at most {}"),
    "minItems": (lambda value, count: len(value) >= count, "at least {} items"),
    "maxItems": (lambda value, count: len(value) <= count, "at most {} items"),
    "maxLength": (lambda value, count: len(value) <= count, "at most {} letters"),
    "maxProperties": (lambda value, count: len(value) <= count, "at most {} fields"),
    "uniqueItems": (lambda value, _: len(set(value)) == len(value), "no item twice"),
    "enum": (lambda value, words: value in words, "one of {}"),
    "pattern": (lambda value, pattern: re.search(pattern, value) is not None, "text like {}"),
    "contentEncoding": (lambda value, _: _is_base64(value), "text in {}"),
    "type": (lambda value, _: value is None, "{}"),
}


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _require_keywords(value: Any, keywords: Mapping[str, Any]) -> None:
    """Check what was read; null, where its type allows it, satisfies every keyword."""
    for keyword, limit in keywords.items() if value is not None else ():
        if keyword == "items":
            for index, one in enumerate(value):
                _within(index, partial(_require_keywords, keywords=limit), one)
        elif keyword == "properties":
            for name, inner in limit.items():
                _within(name, partial(_require_keywords, keywords=inner), getattr(value, name))
        else:
            fits, expected = _KEYWORDS[keyword]
            _require(fits(value, limit), value, expected.format(limit))
