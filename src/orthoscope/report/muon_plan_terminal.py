"""Costs of a step of Muon in a terminal: one row per cluster, and below it the bytes of each collective."""

from rich.console import Group, RenderableType
from rich.padding import Padding

from orthoscope.report.document import MuonPlanDocument, StepCost
from orthoscope.report.layout import labeled, table

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def plan_table(document: MuonPlanDocument) -> RenderableType:
    """Return bytes, memory and work of a step as a table; "max" is the busiest rank."""
    memory = ("momentum", "temporary")
    sent, work = ("ranks", "sent\nmax", "sent\nmean"), ("TFLOP\nmax", "max to\nmean", "ranks\nat work")
    made = table("layout", *sent, *memory, *work, words=("layout",))
    for cost in document.plans:
        made.add_row(
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
        labeled("MUON", what),
        Padding(made, (1, 0)),
        *(labeled(f"{cost.layout} {cost.ranks}", _calls(cost)) for cost in document.plans),
        labeled("sent", "to other ranks, own slice excluded; all_gather around a ring", "dim"),
        labeled("temporary", "by formula: updates and exchange, without the method's work space", "dim"),
        labeled("TFLOP", "five quintic steps for the parameters that the rank owns", "dim"),
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
