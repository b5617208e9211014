"""The lists of a page: facts under the banner, notes, sources with their hypotheses, the environment."""

from collections.abc import Iterable, Mapping, Sequence

from orthoscope.report.reading import Document
from orthoscope.report.tables import safe


def facts(entries: Iterable[tuple[str, str]]) -> str:
    """Names and values that are markup already."""
    content = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in entries)
    return f'<dl class="facts">{content}</dl>'


def details_list(title: str, items: Sequence[str], is_open: bool = False) -> str:
    """A list under a title that folds it away; all of it markup already."""
    content = "".join(f"<li>{item}</li>" for item in items)
    return f"<details{' open' if is_open else ''}><summary>{title}</summary><ul>{content}</ul></details>"


def sources_list(sources: Sequence[Mapping[str, str]]) -> str:
    """Every statement that a prediction rests on, with what it assumes."""
    items = [f"<li><b>{safe(row['source'])}</b>, assuming {safe(row['assumes'])}</li>" for row in sources]
    return f'<ul class="sources">{"".join(items)}</ul>' if items else ""


def environment(document: Document) -> str:
    """What the numbers were made with."""
    items = [f"{safe(name)} {safe(value)}" for name, value in document["environment"].items()]
    return details_list("Environment", items)
