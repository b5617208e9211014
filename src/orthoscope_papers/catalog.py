"""What can be reproduced, read from the source without importing it, so that the list appears without loading torch.

An experiment is a module with a `CLAIM`, or a figure of a module that holds several: `figure_6_4 = Figure(claim=...)`.
`orthoscope_papers.experiments` describes both.
"""

import ast
import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

Setting = Literal["quick", "default", "full"]
ALL = "all"
# Core-seconds that an experiment may take at most, shown until a run has measured them.
QUICK_LIMIT, LIMITS = 3.0, {"simulation": 60.0, "training": 240.0}
_PAPERS = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """One experiment, `<bibkey>/<figure>`."""

    name: str
    module: str  # that runs it: its own name, or that of the module that holds several
    claim: str
    kind: str
    has_full: bool  # the paper's own setting differs from the default
    data: tuple[str, ...] = ()  # datasets that are not embedded, in the default setting
    full_data: tuple[str, ...] = ()  # and in the paper's own

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    def needs(self, setting: Setting) -> tuple[str, ...]:
        """Datasets that must be fetched first; quick settings run on embedded ones."""
        return {"quick": (), "default": self.data, "full": self.full_data}[setting]

    def seconds(self, setting: Setting, results: Path) -> tuple[float, bool]:
        """Core-seconds measured by a saved run, and True; else the limit, and False."""
        try:
            measured = json.loads((folder_of(self.name, setting, results) / "meta.json").read_text("utf-8"))["seconds"]
        except (OSError, ValueError, KeyError):
            return (QUICK_LIMIT if setting == "quick" else LIMITS[self.kind]), False
        return float(measured), True


def folder_of(name: str, setting: Setting, results: Path) -> Path:
    """Folder of an experiment's results; those of the default setting are not overwritten by the other two."""
    return results / name if setting == "default" else results / setting / name


@cache
def catalog() -> tuple[Entry, ...]:
    """Every experiment, paper by paper, figures in the order of their numbers."""
    entries = [entry for file in _PAPERS.glob("*/*.py") for entry in _entries(file)]
    return tuple(sorted(entries, key=lambda entry: (entry.paper, _by_number(entry.name))))


def papers() -> dict[str, str]:
    """Bib key and full reference of every paper."""
    sources = {file.parent.name: file.read_text("utf-8") for file in sorted(_PAPERS.glob("*/__init__.py"))}
    return {key: ast.get_docstring(ast.parse(text)) or key for key, text in sources.items()}


def chosen(names: Sequence[str], entries: Sequence[Entry]) -> list[Entry]:
    """Select experiments by `all`, a paper, or a paper and a figure; in the order of the catalog, each once.

    Raises:
        ValueError: for an unknown name, with the nearest known ones.
    """
    known = {ALL: list(entries)}
    for entry in entries:
        known.setdefault(entry.paper, []).append(entry)
        known[entry.name] = [entry]
    picked = set()
    for name in names:
        if name.rstrip("/") not in known:
            raise ValueError(_unknown(name, list(known)))
        picked |= {entry.name for entry in known[name.rstrip("/")]}
    return [entry for entry in entries if entry.name in picked]


def _unknown(name: str, known: Sequence[str]) -> str:
    figures = [other for other in known if other.endswith(f"/{name}")]
    near = figures or difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else "orthoscope reproduce lists them all"
    return f"there is no experiment {name!r}: {advice}"


def _by_number(name: str) -> list[Any]:
    """`figure_10` after `figure_9a`: runs of digits compare as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _entries(file: Path) -> Iterator[Entry]:
    """The experiments of a module: itself, if it has a CLAIM, and each of its figures."""
    module = f"{file.parent.name}/{file.stem}"
    constants, figures = _assignments(file)
    if "CLAIM" in constants:
        figures[file.stem] = {}
    for figure, own in figures.items():
        stated = constants | own  # what a figure does not state is as its module states it
        data = stated.get("DATA", ())
        yield Entry(
            f"{file.parent.name}/{figure}",
            module,
            stated["CLAIM"],
            stated.get("KIND", ""),
            "FULL" in stated,
            data,
            stated.get("FULL_DATA", data),
        )


def _assignments(file: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Constants that a module assigns, and the arguments of its figures, as upper-case names; None if not literal."""
    constants: dict[str, Any] = {}
    figures: dict[str, dict[str, Any]] = {}
    for statement in ast.parse(file.read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id, statement.value
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Figure":
                figures[name] = {word.arg.upper(): _literal(word.value) for word in value.keywords if word.arg}
            else:
                constants[name] = _literal(value)
    return constants, figures


def _literal(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        return None
