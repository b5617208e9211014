"""The version of the code that computes an experiment's rows: finished runs of another version are not reused."""

import ast
import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

from orthoscope.version import VERSION

_SOURCE = Path(__file__).parents[1]
_PACKAGES = ("orthoscope", "orthoscope_papers")
# Rows do not depend on how they are drawn, compared, stored and scheduled.
_IGNORED = (
    "orthoscope.report",
    "orthoscope.sweep",
    "orthoscope_papers.drawing",
    "orthoscope_papers.evidence",
    "orthoscope_papers.experiments",
    "orthoscope_papers.panels",
    "orthoscope_papers.results",
)
_ROOTS = {"run", "cells", "Config", "Row", "QUICK", "FULL"}


def code_version(name: str) -> str:
    """Return a hash of the code that `run` of the module `<bibkey>/<name>` reaches.

    It covers the module's statements in reach of `run`, the modules that these import, and the versions of library and
    torch. Comments, docstrings and layout do not count, nor do `check`, `compare`, `plot` and figures: to change one
    of these costs no rerun.
    """
    module = f"orthoscope_papers.{name.replace('/', '.')}"
    tree = ast.parse(_file(module).read_text("utf-8"))
    kept = _reached(tree)
    parts = [VERSION, version("torch"), *(ast.dump(statement) for statement in _without_docstrings(kept).body)]
    parts += [f"{other} {_hash(other)}" for other in sorted(_closure(_imports(kept, module)) - {module})]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _reached(tree: ast.Module) -> ast.Module:
    """The module without the functions and assignments that nothing in reach of `run` names."""
    defined: dict[str, ast.stmt] = {}
    always: list[ast.stmt] = []
    for statement in tree.body:
        names = _defines(statement)
        always += [] if names else [statement]
        defined |= dict.fromkeys(names, statement)
    reached: set[str] = set()
    open_names = {name for statement in always for name in _names(statement)} | _ROOTS
    while open_names:
        name = open_names.pop()
        if name in defined and name not in reached:
            reached.add(name)
            open_names |= _names(defined[name])
    chosen = {id(statement) for statement in always} | {id(defined[name]) for name in reached}
    return ast.Module([statement for statement in tree.body if id(statement) in chosen], [])


def _defines(statement: ast.stmt) -> list[str]:
    """Names that a statement at the top of a module binds, imports included."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in statement.names]
    return []


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _closure(modules: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = set(modules)
    while waiting:
        module = waiting.pop()
        if module not in found and not module.startswith(_IGNORED):
            found.add(module)
            waiting |= _imported_by(module)
    return found


@cache
def _imported_by(module: str) -> set[str]:
    return _imports(ast.parse(_file(module).read_text("utf-8")), module)


def _imports(tree: ast.AST, module: str) -> set[str]:
    """Modules of these packages that a tree imports anywhere, and the packages they are in."""
    found: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            prefixes = (".".join(parts[:length]) for length in range(2, len(parts) + 1) if parts[0] in _PACKAGES)
            found |= {prefix for prefix in prefixes if _exists(prefix)}
    return found - {module}


@cache
def _hash(module: str) -> str:
    tree = _without_docstrings(ast.parse(_file(module).read_text("utf-8")))
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                node.body = node.body[1:]
    return tree


def _file(module: str) -> Path:
    place = _SOURCE.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def _exists(module: str) -> bool:
    return _file(module).is_file()
