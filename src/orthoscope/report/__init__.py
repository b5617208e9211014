"""From a diagnosis as plain data to a terminal table, a JSON file and one offline page; imports no torch."""

from orthoscope.report.documents import report_json, schema, write
from orthoscope.report.page import html, notebook
from orthoscope.report.terminal import gallery_table, terminal, text

__all__ = ["gallery_table", "html", "notebook", "report_json", "schema", "terminal", "text", "write"]
