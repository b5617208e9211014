"""What every drawn figure must be."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from orthoscope_papers.drawing import svg
from orthoscope_papers.panels import HeatMap, Panel


def drawn(panels: Sequence[Panel | HeatMap]) -> str:
    """Return the panels as one well-formed SVG document, after a look at its coordinates: all are finite."""
    document = svg(panels)
    root = ElementTree.fromstring(document)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    values = [value for element in root.iter() for name, value in element.items() if not name.endswith("href")]
    assert not [value for value in values if re.search(r"\b(nan|inf)\b", value)]
    return document
