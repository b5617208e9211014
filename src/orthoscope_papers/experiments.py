"""The protocol of an experiment, and one of its runs as a worker sees it: plain data in, plain data out.

An experiment is a module `<bibkey>/<figure>.py` with these names:

    CLAIM, KIND             the claim, one sentence or more; "simulation" or "training"
    DATA, FULL_DATA         datasets that the default and the full setting must fetch, if any
    Config, QUICK, FULL     a frozen dataclass whose defaults are the default setting; the quick setting; the paper's
                            own setting, if the default is smaller
    Row, run, cells         columns of the table; configuration to rows; configuration to smaller ones that may run
                            anywhere and in any order, if the work can be divided
    check, compare, plot    rows to the claim in numbers, to the paper's numbers beside ours, to the panels of
                            the figure, which `drawing` draws

Several figures made by one `run` are one module, in which each is a `Figure` under its own name.
"""

import dataclasses
import time
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from orthoscope_papers.catalog import Setting, catalog, chosen
from orthoscope_papers.code_version import code_version
from orthoscope_papers.evidence import Evidence
from orthoscope_papers.panels import HeatMap, Panel
from orthoscope_papers.results import table_of

Check = Callable[[list[Any]], dict[str, bool]]
Compare = Callable[[list[Any]], list[Evidence]]
Plot = Callable[[list[Any]], Sequence[Panel | HeatMap]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure or table of a module that makes several; what is None is as the module's own names have it.

    The catalog reads `claim`, `data` and `full_data` from the source, so these are literals.
    """

    claim: str
    data: tuple[str, ...] | None = None
    full_data: tuple[str, ...] | None = None
    default: Any = None
    quick: Any = None
    full: Any = None
    check: Check | None = None
    compare: Compare | None = None
    plot: Plot | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment that is loaded: its three settings, how they become rows, and what is made of rows."""

    module: str  # equal cells of one module are one run, whichever figures ask for them
    settings: Mapping[Setting, Any]
    Row: type[Any]
    run: Callable[[Any], list[Any]]
    cells: Callable[[Any], Sequence[Any]]
    check: Check
    compare: Compare
    plot: Plot


def load(name: str) -> Experiment:
    """Import the experiment `<bibkey>/<figure>`.

    Raises:
        ValueError: for a name that is not in the catalog.
    """
    [entry] = chosen([name], catalog())
    module = import_runner(entry.module)
    figure = Figure(claim=entry.claim) if entry.module == name else getattr(module, name.partition("/")[2])
    default = figure.default or module.Config()
    full = figure.full or getattr(module, "FULL", default)
    return Experiment(
        entry.module,
        {"quick": figure.quick or module.QUICK, "default": default, "full": full},
        module.Row,
        module.run,
        getattr(module, "cells", lambda config: [config]),
        figure.check or module.check,
        figure.compare or module.compare,
        figure.plot or module.plot,
    )


def import_runner(module: str) -> Any:
    """Import the module `<bibkey>/<name>` that has Config, Row and run."""
    return import_module(f"orthoscope_papers.{module.replace('/', '.')}")


def run_cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Run `{"module": name, "config": plain, "code": version}`; called in a worker.

    Returns:
        `{"table": CSV, "seconds": s}`. The table is text because text is saved: no row is rounded or reordered.

    Raises:
        ValueError: if the configuration does not fit, or the source is no longer the `code` that was planned.
    """
    name = cell["module"]
    module, now = import_runner(name), code_version(name)
    if cell.get("code", now) != now:
        raise ValueError(f"the code of {name} changed after this run was planned: run the command again")
    config = parsed(module.Config, cell["config"], name)
    began = time.perf_counter()  # after the imports, which only the first run of a worker has to wait for
    rows = module.run(config)
    return {"table": table_of(rows, module.Row), "seconds": time.perf_counter() - began}


def joined(tables: list[str]) -> str:
    """Concatenate tables of cells under one header."""
    header = tables[0].partition("\n")[0]
    for table in tables:
        if table.partition("\n")[0] != header:
            raise ValueError("two runs of one experiment left tables with different columns: delete its stored runs")
    return header + "\n" + "".join(table.partition("\n")[2] for table in tables)


_SCALARS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def parsed(config: type[Any], given: Mapping[str, Any], name: str) -> Any:
    """Return the dataclass `config` from the JSON of one: lists become tuples, every field must be there.

    Raises:
        ValueError: with `name` and the field, for a field that is missing, unknown or of another type: such a
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
