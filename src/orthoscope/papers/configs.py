"""Configurations of experiments as plain JSON, and back: what does not fit is refused by name, never guessed."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

_SCALARS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def parsed(config: type[Any], given: Mapping[str, Any], name: str) -> Any:
    """The dataclass `config` from what JSON made of it: lists become tuples again, every field must be there.

    ValueError, with `name` and the field in it, for a field that is missing, unknown or of another type: such a
    configuration was written by other code, and its results are not those of this code.
    """
    hints = typing.get_type_hints(config)
    fields = [field.name for field in dataclasses.fields(config)]
    for field in given:
        if field not in fields:
            raise ValueError(f"the configuration of {name} has no field {field!r}: it has {', '.join(fields)}")
    for field in fields:
        if field not in given:
            raise ValueError(f"the configuration of {name} lacks the field {field!r}: it was written by other code")
    return config(**{field: _value(hints[field], given[field], f"{field!r} of {name}") for field in fields})


def _value(kind: Any, given: Any, place: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type) and isinstance(given, dict):
        return parsed(kind, given, place)
    if kind is None or kind is types.NoneType:
        return None if given is None else _refuse("null", given, place)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, given, place)
    if origin is Literal:
        return given if given in arguments else _refuse(f"one of {', '.join(map(repr, arguments))}", given, place)
    if origin is tuple:
        return _tuple(arguments, given, place)
    return _scalar(kind, given, place)


def _scalar(kind: Any, given: Any, place: str) -> Any:
    if kind not in _SCALARS:
        raise TypeError(f"{place} is a {kind}: configurations hold bool, int, float, str, None, Literal and tuples")
    # JSON has one kind of number, and True is an int to Python.
    fits = isinstance(given, kind) or (kind is float and isinstance(given, int))
    if not fits or (isinstance(given, bool) and kind is not bool):
        _refuse(_SCALARS[kind], given, place)
    return kind(given)


def _tuple(kinds: tuple[Any, ...], given: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(given, (list, tuple)):
        _refuse("a list", given, place)
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(given)
    if len(kinds) != len(given):
        _refuse(f"a list of {len(kinds)}", given, place)
    numbered = enumerate(zip(kinds, given, strict=True))
    return tuple(_value(kind, item, f"{place}, item {index}") for index, (kind, item) in numbered)


def _one_of(kinds: tuple[Any, ...], given: Any, place: str) -> Any:
    # An exact type first, so that 1 stays an int where int and float are both allowed.
    for kind in sorted(kinds, key=lambda kind: type(given) is not kind):
        try:
            return _value(kind, given, place)
        except ValueError:
            continue
    return _refuse(" or ".join(_SCALARS.get(kind, str(kind)) for kind in kinds), given, place)


def _refuse(expected: str, given: Any, place: str) -> Any:
    raise ValueError(f"{place} must be {expected}, got {given!r}")
