"""From a diagnosis or a prediction as plain data to a terminal, a JSON file and one offline page; imports no torch."""

from orthoscope.report.dataframes import frame
from orthoscope.report.figures import figure
from orthoscope.report.fix_terminal import comparison_markdown, plan_text
from orthoscope.report.pages import html, notebook, report_json, schema, write
from orthoscope.report.prediction_terminal import comparison_table
from orthoscope.report.terminal import code_to_paste, gallery_table, terminal, text

__all__ = [
    "code_to_paste",
    "comparison_markdown",
    "comparison_table",
    "figure",
    "frame",
    "gallery_table",
    "html",
    "notebook",
    "plan_text",
    "report_json",
    "schema",
    "terminal",
    "text",
    "write",
]
