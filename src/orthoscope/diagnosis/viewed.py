"""Base of all results that can be shown: from one document to a table, a page, a file, a DataFrame or a figure."""

import json
from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

from orthoscope import report


class Viewed(ABC):
    """A result that prints as a table, shows as a page in a notebook, and can be saved."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Everything as plain data, in the versioned schema."""

    def to_json(self) -> str:
        """The document as strict JSON: no nan, no infinity."""
        return json.dumps(self.document(), allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `.html` or `.json` atomically."""
        report.write(path, [self.document()])

    def _document_for_text(self) -> dict[str, Any]:
        """The document without details that only a page draws; overridden where those take time to compute."""
        return self.document()

    def __str__(self) -> str:
        return report.text(self._document_for_text())

    __repr__ = __str__  # at a prompt, the table

    def to_frame(self, library: str = "pandas") -> Any:
        """A DataFrame of "pandas" or "polars", a row for every layer, depth, block or snapshot; see `report.frame`."""
        return report.frame(self.document(), library)

    def plot(self) -> Any:
        """A matplotlib `Figure` of the same numbers along the network, what theory expects dashed.

        It belongs to no window and no pyplot state: `.savefig("profiles.svg")` writes it.
        """
        return report.figure(self.document())

    def _repr_html_(self) -> str:
        return report.notebook(self.document())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What notebooks show: the page, and the table where only text can be shown."""
        bundle = {"text/plain": str(self), "text/html": self._repr_html_()}
        wanted = {kind for kind in bundle if not include or kind in include} - set(exclude or ())
        return {kind: content for kind, content in bundle.items() if kind in wanted}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
