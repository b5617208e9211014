"""Base of all results that can be shown: from one document to a table, a page, a file, a DataFrame or a figure."""

import json
from abc import ABC, abstractmethod
from os import PathLike
from typing import Any

from orthoscope import report
from orthoscope.report.document import Document, to_data


class Viewed(ABC):
    """A result that prints as a table, shows as a page in a notebook, and can be saved."""

    @abstractmethod
    def as_document(self, details: bool = True) -> Document:
        """Return everything that views show, in the dataclasses of `orthoscope.report.document`.

        Args:
            details: Whether to compute what only a page draws.
        """

    def document(self) -> dict[str, Any]:
        """Return everything as plain data, in the versioned schema."""
        data: dict[str, Any] = to_data(self.as_document())
        return data

    def to_json(self) -> str:
        """The document as strict JSON: no nan, no infinity."""
        return json.dumps(self.document(), allow_nan=False)

    def save(self, path: str | PathLike[str]) -> None:
        """Write `.html` or `.json` atomically."""
        report.write(path, [self.as_document()])

    def __str__(self) -> str:
        return report.text(self.as_document(details=False))

    __repr__ = __str__  # at a prompt, the table

    def to_frame(self, library: str = "pandas") -> Any:
        """A DataFrame of "pandas" or "polars", a row for every layer, depth, block or snapshot; see `report.frame`."""
        return report.frame(self.as_document(details=False), library)

    def plot(self) -> Any:
        """A matplotlib `Figure` of the same numbers along the network, what theory expects dashed.

        It belongs to no window and no pyplot state: `.savefig("profiles.svg")` writes it.
        """
        return report.figure(self.as_document(details=False))

    def _repr_html_(self) -> str:
        return report.notebook(self.as_document())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What notebooks show: the page, and the table where only text can be shown."""
        bundle = {"text/plain": str(self), "text/html": self._repr_html_()}
        wanted = {kind for kind in bundle if not include or kind in include} - set(exclude or ())
        return {kind: content for kind, content in bundle.items() if kind in wanted}

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
