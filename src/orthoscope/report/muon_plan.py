"""Plans of Muon in a terminal: a row a plan, and under them what is sent by which call."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orthoscope.report.labelled import labelled
from orthoscope.report.reading import Document

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def plan_table(documents: Sequence[Document]) -> RenderableType:
    """Bytes, memory and work of a step, those of the busiest rank first."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("layout", no_wrap=True)
    for heading in (
        "ranks",
        "sent\nmax",
        "sent\nmean",
        "momentum",
        "temporary",
        "TFLOP\nmax",
        "max to\nmean",
        "ranks\nat work",
    ):
        table.add_column(heading, justify="right", no_wrap=True)
    for plan in documents:
        table.add_row(
            plan["layout"],
            str(plan["ranks"]),
            amount(plan["bytes_sent"]["max"]),
            amount(plan["bytes_sent"]["mean"]),
            amount(plan["momentum_bytes"]["max"]),
            amount(plan["temporary_bytes"]["max"]),
            f"{plan['flops']['max'] / 1e12:.3g}",
            f"{plan['busiest_to_mean']:.2f}",
            str(plan["ranks_with_work"]),
        )
    first = documents[0]
    what = f"{first['parameters']} parameters, {first['elements']:.3e} elements, {first['dtype']}; a rank and step"
    return Group(
        labelled("MUON", Text(what)),
        Text(""),
        table,
        Text(""),
        *(labelled(f"{plan['layout']} {plan['ranks']}", Text(_calls(plan))) for plan in documents),
        labelled("sent", Text("to other ranks, own slice excluded; all_gather around a ring", "dim")),
        labelled("temporary", Text("formula: updates and exchange; the method's work space on top", "dim")),
        labelled("TFLOP", Text("five quintic steps for what the rank owns", "dim")),
    )


def amount(count: int | float) -> str:
    """Bytes in the largest decimal unit that leaves a number of at least 1."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.3g} {_UNITS[unit]}"


def _calls(plan: Document) -> str:
    calls = [f"{call} {amount(sent['max'])}" for call, sent in plan["bytes_sent_by_call"].items()]
    return ", ".join(calls) or "nothing is sent"
