"""The API reference: the command line, and a page for each public package with an entry for every name of `__all__`.

Both are read from the library when the site is built, so that a new option or a new public name appears by itself.
mkdocstrings fills the entries of names from signatures and docstrings.
"""

import importlib
import inspect
from types import ModuleType

import orthoscope
from orthoscope.cli import app

FOLDER = "api"
COMMAND_LINE = f"{FOLDER}/command_line.md"


def packages() -> list[str]:
    """Public packages and modules: orthoscope itself, and those that its `__all__` names."""
    return ["orthoscope", *(f"orthoscope.{name}" for name in orthoscope.__all__ if _is_module(name))]


def public_names(package: str) -> list[str]:
    """Names of `__all__` but for packages; of a module without it, what is defined there and has no underscore.

    Values are not looked at: some are imported on first use, from packages that are optional.
    """
    module = importlib.import_module(package)
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if package != "orthoscope" or not _is_module(name)]
    defined = vars(module).items()
    return [name for name, value in defined if getattr(value, "__module__", "") == package and name[0] != "_"]


def pages() -> dict[str, str]:
    """Return the Markdown of every page by its path in docs/."""
    written = {f"{FOLDER}/{package}.md": _page(package) for package in packages()}
    return {COMMAND_LINE: app.generate_docs(output_format="markdown"), **written}


def navigation() -> list[dict[str, str]]:
    """Return the entries of the site's navigation."""
    return [{"Command line": COMMAND_LINE}, *({package: f"{FOLDER}/{package}.md"} for package in packages())]


def _is_module(name: str) -> bool:
    return isinstance(getattr(orthoscope, name), ModuleType)


def _page(package: str) -> str:
    introduction = inspect.getdoc(importlib.import_module(package)) or ""
    entries = [f"::: {package}.{name}" for name in public_names(package)]
    return "\n\n".join([f"# {package}", introduction, *entries]) + "\n"
