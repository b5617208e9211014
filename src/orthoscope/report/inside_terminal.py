"""Attentions, the residual stream, recurrent layers and mixtures of experts in a terminal: a short table of each."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from orthoscope.report.document import DiagnosisDocument, Group, Part, StreamPoint, quantities
from orthoscope.report.folding import wrapped
from orthoscope.report.layout import labeled, table
from orthoscope.report.wording import UNDEFINED, number, printable, written

_MOST = 12  # rows of a table: the first and the last ones
_NAME = 40


def inside_terminal(document: DiagnosisDocument) -> Iterator[RenderableType]:
    """Yield what there is: nothing for a plain network."""
    if document.stream:
        yield labeled("stream", stream_words(document.stream))
    tables: tuple[tuple[str, Group, Sequence[Part] | None], ...] = (
        ("attention", "attention", document.attention),
        ("recurrent layer", "time", document.time),
        ("mixture of experts", "experts", document.experts),
    )
    for title, group, rows in tables:
        if rows:
            yield Padding(_table(title, group, rows), (1, 0, 0, 0))


def stream_words(stream: Sequence[StreamPoint]) -> str:
    """Return what happens along the residual stream in one sentence; growth is told as the page tells it."""
    ratios = [point.branch_ratio for point in stream if point.branch_ratio is not None]
    said = [f"{len(stream)} residual sums", f"RMS {_written(stream[0].rms)} to {_written(stream[-1].rms)}"]
    if ratios:
        said.append(f"a branch adds {_written(min(ratios))} to {_written(max(ratios))} of the stream")
    return " · ".join(said)


def _written(value: float | None) -> str:
    return UNDEFINED if value is None else number(value)


def _table(title: str, group: Group, rows: Sequence[Part]) -> RenderableType:
    shown = quantities(group)
    made = table(title, *(one.short for one in shown), words=(title,))
    for row in _ends(rows):
        if row is None:
            made.add_row(Text(f"… {len(rows) - _MOST} more", "dim"))
            continue
        name = printable(str(getattr(row, "module", ""))) or "(model)"
        cells = (written(one, getattr(row, one.key), _possible(row)) for one in shown)
        made.add_row(Text(wrapped(name, _NAME)), *cells)
    made.caption = "; ".join(f"{one.short}: {one.label}" for one in shown)
    made.caption_justify, made.caption_style = "left", "dim"
    return made


def _ends(rows: Sequence[Part]) -> list[Part | None]:
    if len(rows) <= _MOST:
        return list(rows)
    half = _MOST // 2
    return [*rows[:half], None, *rows[-half:]]


def _possible(row: Part) -> int | None:
    """What a number of experts, or of steps, is compared with."""
    possible: int | None = getattr(row, "experts", getattr(row, "steps", None))
    return possible
