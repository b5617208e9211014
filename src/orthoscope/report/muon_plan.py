"""Costs of a step of Muon in a terminal: one row per cluster, and below it the bytes of each collective."""

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from orthoscope.report.document import MuonPlanDocument, StepCost
from orthoscope.report.wording import labeled

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def plan_table(document: MuonPlanDocument) -> RenderableType:
    """Return bytes, memory and work of a step as a table; "max" is the busiest rank."""
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
    for cost in document.plans:
        table.add_row(
            cost.layout,
            str(cost.ranks),
            amount(cost.bytes_sent.max),
            amount(cost.bytes_sent.mean),
            amount(cost.momentum_bytes.max),
            amount(cost.temporary_bytes.max),
            f"{cost.flops.max / 1e12:.3g}",
            f"{cost.busiest_to_mean:.2f}",
            str(cost.ranks_with_work),
        )
    first = document.plans[0]
    what = f"{first.parameters} parameters, {first.elements:.3e} elements, {first.dtype}; per rank and step"
    return Group(
        labeled("MUON", Text(what)),
        Text(""),
        table,
        Text(""),
        *(labeled(f"{cost.layout} {cost.ranks}", Text(_calls(cost))) for cost in document.plans),
        labeled("sent", Text("to other ranks, own slice excluded; all_gather around a ring", "dim")),
        labeled("temporary", Text("by formula: updates and exchange, without the method's work space", "dim")),
        labeled("TFLOP", Text("five quintic steps for the parameters that the rank owns", "dim")),
    )


def amount(count: int | float) -> str:
    """Return bytes in the largest decimal unit that gives a number of at least 1."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return f"{count:.3g} {_UNITS[unit]}"


def _calls(cost: StepCost) -> str:
    calls = [f"{call} {amount(sent.max)}" for call, sent in cost.bytes_sent_by_call.items()]
    return ", ".join(calls) or "nothing is sent"
