"""The version of the code behind an experiment's rows: what other code computed is not taken for its result."""

import ast
import hashlib
from functools import cache
from importlib.metadata import version
from pathlib import Path

from orthoscope.version import VERSION

_SOURCE = Path(__file__).parents[1]
# What rows do not depend on: drawing them, comparing them and running them.
_BESIDES = (
    "report",
    "sweep",
    "papers.drawing",
    "papers.evidence",
    "papers.results",
    "papers.heat_map",
    "papers.frames",
)
_ENTRIES = {"run", "cells", "Config", "Row", "QUICK", "FULL"}


def code_version(name: str) -> str:
    """A hash of what `run` reaches in its module, of what that imports, and of the versions of library and torch.

    Comments, docstrings and layout do not count, nor do `check`, `compare` and `plot`: to change one costs no rerun.
    """
    module = f"papers.{name.replace('/', '.')}"
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
    open_names = {name for statement in always for name in _names(statement)} | _ENTRIES
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
        if module not in found and not module.startswith(_BESIDES):
            found.add(module)
            waiting |= _imported_by(module)
    return found


@cache
def _imported_by(module: str) -> set[str]:
    return _imports(ast.parse(_file(module).read_text("utf-8")), module)


def _imports(tree: ast.AST, module: str) -> set[str]:
    """Modules of this library that a tree imports anywhere, and the packages they are in."""
    found: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            inside = name.split(".")[1:] if name.startswith("orthoscope.") else []
            prefixes = (".".join(inside[: length + 1]) for length in range(len(inside)))
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
