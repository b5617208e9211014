"""A curve in one line of text: eight heights of a block, a space where it is undefined."""

from collections.abc import Sequence

from orthoscope.report.reading import Number

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[Number | None], low: Number, high: Number, columns: int) -> str:
    """Values from `low` (lowest block) to `high` (full block); more of them than columns are thinned."""
    count = min(columns, len(values))
    places = [place(column, count, len(values)) for column in range(count)]
    return "".join(_block(values[index], low, high) for index in places)


def place(index: int, count: int, among: int) -> int:
    """Where number `index` of `count` falls `among` others that span the same range."""
    return 0 if count < 2 else round(index * (among - 1) / (count - 1))


def pointer(column: int, columns: int, sentences: Sequence[str]) -> str:
    """A mark under a column with the first sentence that fits beside it; the mark alone if none does."""
    for sentence in sentences:
        if column + 2 + len(sentence) <= columns:
            return f"{' ' * column}▲ {sentence}"
        if len(sentence) + 1 <= column:
            return f"{sentence:>{column - 1}} ▲"
    return f"{' ' * column}▲"


def _block(value: Number | None, low: Number, high: Number) -> str:
    if value is None:
        return " "
    share = 0.5 if high == low else (value - low) / (high - low)
    return _BLOCKS[round(min(1.0, max(0.0, share)) * (len(_BLOCKS) - 1))]
