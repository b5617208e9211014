"""What can be reproduced, read from the source without running it, so that a list appears at once."""

import ast
import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Setting = Literal["quick", "default", "full"]
ALL = "all"
# Core-seconds that an experiment may take, where it was not measured yet: the rule that every module keeps.
QUICK_LIMIT, LIMITS = 3.0, {"simulation": 60.0, "training": 240.0}
_PAPERS = Path(__file__).parent


@dataclass(frozen=True)
class Entry:
    """One experiment: the module `orthoscope.papers.<bibkey>.<figure>`, named `<bibkey>/<figure>`."""

    name: str
    claim: str
    kind: str
    has_full: bool  # the paper's own setting differs from the default
    data: tuple[str, ...] = ()  # sets that are not embedded, in the default setting
    full_data: tuple[str, ...] = ()  # and in the paper's own

    @property
    def paper(self) -> str:
        return self.name.partition("/")[0]

    def needs(self, setting: Setting) -> tuple[str, ...]:
        """Sets that must be fetched first; quick settings run on what is embedded."""
        return {"quick": (), "default": self.data, "full": self.full_data}[setting]

    def seconds(self, setting: Setting, results: Path) -> tuple[float, bool]:
        """Core-seconds as saved results have them, and True; else those it may take at most, and False."""
        try:
            measured = json.loads((folder_of(self.name, setting, results) / "meta.json").read_text("utf-8"))["seconds"]
        except (OSError, ValueError, KeyError):
            return (QUICK_LIMIT if setting == "quick" else LIMITS[self.kind]), False
        return float(measured), True


def folder_of(name: str, setting: Setting, results: Path) -> Path:
    """Where its results are: those of the default setting are the ones to keep, and nothing else overwrites them."""
    return results / name if setting == "default" else results / setting / name


def catalog() -> list[Entry]:
    """Every module of a paper that has a CLAIM, paper by paper, figures in the order of their numbers."""
    entries = []
    for file in sorted(_PAPERS.glob("*/*.py"), key=lambda file: (file.parent.name, _by_number(file.stem))):
        constants = _constants(file)
        if "CLAIM" in constants:
            name = f"{file.parent.name}/{file.stem}"
            data = constants.get("DATA", ())
            sets = (data, constants.get("FULL_DATA", data))
            entries.append(Entry(name, constants["CLAIM"], constants.get("KIND", ""), "FULL" in constants, *sets))
    return entries


def papers() -> dict[str, str]:
    """Bib keys of the papers, and which these are."""
    sources = {file.parent.name: file.read_text("utf-8") for file in sorted(_PAPERS.glob("*/__init__.py"))}
    return {key: ast.get_docstring(ast.parse(text)) or key for key, text in sources.items()}


def chosen(names: Sequence[str], entries: Sequence[Entry]) -> list[Entry]:
    """Those that are named: `all`, a paper, or a paper and a figure; in the order of the catalogue, each once."""
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


def _by_number(stem: str) -> list[Any]:
    """`figure_10` after `figure_9a`: runs of digits compare as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", stem)]


def _constants(file: Path) -> dict[str, Any]:
    """Upper-case names that a module assigns; the values of those that are literal, None of others."""
    found: dict[str, Any] = {}
    for statement in ast.parse(file.read_text("utf-8")).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            try:
                found[statement.targets[0].id] = ast.literal_eval(statement.value)
            except ValueError:
                found[statement.targets[0].id] = None
    return found
