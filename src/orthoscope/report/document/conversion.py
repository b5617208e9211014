"""Documents to strict JSON data and back, by reflection over the dataclasses; bad data gets one sentence.

A field is declared as `name: Annotated[type, "one sentence", {JSON Schema keywords}]`; the keywords are optional.
A trailing underscore, for words that Python reserves, is not part of the JSON name. A field whose default is None
is left out of the JSON while it is None; every other field is always written.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Number = int | float  # JSON has one kind: a writer may turn 1.0 into 1


@dataclass(frozen=True, kw_only=True)
class Part:
    """Base of every document and of every object inside one: what is not finite becomes None when it is made."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not _is_finite(value):
                object.__setattr__(self, name, _without_infinities(value))


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


def copied(kind: type[P], source: object, /, **others: Any) -> P:
    """Return the part of a document whose fields are the attributes of `source` with their names, and `others`."""
    names = (field.attribute for field in declared_fields(kind) if field.attribute not in {"schema", *others})
    return kind(**{name: getattr(source, name) for name in names if hasattr(source, name)}, **others)


def finite(value: Number | None) -> Number | None:
    """Return the number, or None where it is undefined or infinite."""
    return value if value is not None and math.isfinite(value) else None


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return all(map(_is_finite, value)) if isinstance(value, tuple) else True


def _without_infinities(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_without_infinities, value))
    return finite(value) if isinstance(value, float) else value


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
    expected = getattr(kind, "schema", kind.__name__)
    found = data.get("schema") if isinstance(data, Mapping) else None
    if hasattr(kind, "schema") and found != expected:
        raise ValueError(f"this is no document of {expected}: its schema is {found!r}")
    try:
        document: P = _object_reader(kind)(data)
    except _Misfit as misfit:
        raise ValueError(f"this is no document of {expected}: {misfit}") from None
    return document


class _Misfit(Exception):  # noqa: N818 - it becomes a ValueError once its place is known
    """What does not fit, and where: the place is put together on the way out."""

    def __init__(self, found: str, expected: str) -> None:
        self.place, self.found, self.expected = "", found, expected

    def within(self, outer: str) -> "_Misfit":
        dot = "." if self.place and not self.place.startswith("[") else ""
        self.place = f"{outer}{dot}{self.place}"
        return self

    def __str__(self) -> str:
        return f"{self.place or 'it'} {self.found}, expected {self.expected}"


_Reader = Callable[[Any], Any]
_LONGEST = 40  # letters of a value that is quoted
_PLAIN: dict[Any, tuple[Callable[[Any], bool], str]] = {
    str: (lambda value: isinstance(value, str), "text"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
    int: (lambda value: isinstance(value, int) and not isinstance(value, bool), "a whole number"),
    Number: (
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value),
        "a number that JSON can hold",
    ),
    NoneType: (lambda value: value is None, "null"),
}


def _misfit(value: Any, expected: str) -> _Misfit:
    shown = repr(value)
    return _Misfit(f"is {shown if len(shown) <= _LONGEST else shown[:_LONGEST] + '…'}", expected)


def _reader(hint: Any) -> _Reader:
    """Return the function that checks and converts a value of this type."""
    if hint in _PLAIN:
        fits, expected = _PLAIN[hint]
        return lambda value: value if fits(value) else _raise(_misfit(value, expected))
    if isinstance(hint, type) and issubclass(hint, Part):
        return _object_reader(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        words = ", ".join(repr(str(member)) for member in hint)
        known = {str(member): member for member in hint}
        return lambda value: known[value] if _is_key(value, known) else _raise(_misfit(value, f"one of {words}"))
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        words = " or ".join(map(repr, inner))
        return lambda value: value if value in inner else _raise(_misfit(value, words))
    if get_origin(hint) in (Union, UnionType):
        return _optional_reader(inner)
    if get_origin(hint) is tuple:
        return _list_reader(_reader(inner[0]))
    return _mapping_reader(_reader(inner[1]))


def _raise(misfit: _Misfit) -> Any:
    raise misfit


def _is_key(value: Any, known: Mapping[str, Any]) -> bool:
    return isinstance(value, str) and value in known


def _optional_reader(alternatives: tuple[Any, ...]) -> _Reader:
    """Return the reader of `X | None`; `int | float | None` is a number or null."""
    some = tuple(hint for hint in alternatives if hint is not NoneType)
    read = _reader(Number if set(some) == {int, float} else some[0])
    return lambda value: None if value is None else read(value)


def _list_reader(read: _Reader) -> _Reader:
    def read_list(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise _misfit(value, "a list")
        found = []
        for index, one in enumerate(value):
            try:
                found.append(read(one))
            except _Misfit as misfit:
                raise misfit.within(f"[{index}]") from None
        return tuple(found)

    return read_list


def _mapping_reader(read: _Reader) -> _Reader:
    def read_mapping(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise _misfit(value, "an object")
        found = {}
        for name, one in value.items():
            try:
                found[name] = read(one)
            except _Misfit as misfit:
                raise misfit.within(str(name)) from None
        return found

    return read_mapping


def _object_reader(kind: type[Part]) -> _Reader:
    if kind in _readers:
        return _readers[kind]
    known = {field.name: field for field in declared_fields(kind)}
    readers = {name: _reader(field.hint) for name, field in known.items()}
    required = [name for name, field in known.items() if not field.optional]

    def read_object(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _misfit(value, "an object")
        for name in required:
            if name not in value:
                raise _Misfit(f"has no field {name!r}", "one in this version")
        found = {}
        for name, one in value.items():
            if name not in known:
                raise _Misfit(f"has a field {name!r}", "none of that name in this version")
            try:
                found[known[name].attribute] = readers[name](one)
            except _Misfit as misfit:
                raise misfit.within(name) from None
        return kind(**found)

    _readers[kind] = read_object
    return read_object
