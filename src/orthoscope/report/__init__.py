"""From a diagnosis or a prediction as plain data to a terminal, a JSON file and one offline page; imports no torch."""

from orthoscope.report.comparison import comparison_table
from orthoscope.report.documents import report_json, schema, write
from orthoscope.report.errata import errata_list
from orthoscope.report.figures import figure
from orthoscope.report.fix_terminal import code_to_paste, comparison_markdown
from orthoscope.report.frames import frame
from orthoscope.report.page import html, notebook
from orthoscope.report.terminal import gallery_table, terminal, text
from orthoscope.report.watch_log import WatchLog, read_watch_log

__all__ = [
    "WatchLog",
    "code_to_paste",
    "comparison_markdown",
    "comparison_table",
    "errata_list",
    "figure",
    "frame",
    "gallery_table",
    "html",
    "notebook",
    "read_watch_log",
    "report_json",
    "schema",
    "terminal",
    "text",
    "write",
]
