"""Building blocks of pages: the shell with its content policy, tables, lists, and the symbol of a verdict.

A verdict has a shape besides its color, which not everybody sees.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources
from typing import Any

from orthoscope.findings import State, Verdict
from orthoscope.report.reading import Document, LayerRow, Number, findings, first_sick, marks, metric, possible_rank
from orthoscope.report.wording import (
    UNDEFINED,
    begins,
    fixed,
    isometry_gap,
    layer_name,
    number,
    printable,
    rank,
    rank_at_end,
    shape,
    shortened,
    significant,
    slope,
)

_LOOKS = {Verdict.HEALTHY: "healthy", Verdict.AT_RISK: "at-risk", Verdict.SICK: "sick"}


def look(document: Mapping[str, Any]) -> str:
    """The class that gives a verdict its color; shape and word go with it everywhere."""
    return _LOOKS[Verdict(document["verdict"])]


def symbol(look: str, x: Number, y: Number, size: Number = 6) -> str:
    """Circle, triangle or square: a verdict must be told without color."""
    if look == "healthy":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" class="{look}"/>'
    if look == "at-risk":
        corners = f"M{x:.1f},{y - 1.2 * size:.1f} l{1.15 * size:.1f},{2 * size:.1f} h{-2.3 * size:.1f} z"
        return f'<path d="{corners}" class="{look}"/>'
    side = f'width="{2 * size:.1f}" height="{2 * size:.1f}"'
    return f'<rect x="{x - size:.1f}" y="{y - size:.1f}" {side} class="{look}"/>'


# Nothing may be loaded, whatever a document holds: escaping is the first lock, this the second.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def shell(eyebrow: str, title: str, content: str) -> str:
    """One self-contained page; all three are markup already."""
    style = resources.files(__package__).joinpath("style.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{title} · Orthoscope</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f'<header><p class="eyebrow">{eyebrow}</p><h1>{title}</h1></header>\n'
        f"<main>\n{content}</main>\n</body>\n</html>\n"
    )


_LONGEST_NAME = 100
_NUMERIC = {"#", "gap", "rank at end", "slope ± se", "measured", "limit", "rms", "overlap", "rank"}
_NUMERIC |= {"isometry gap", "gradient", "predicted", "depth", "overlap ± s.d.", "rank of possible", "gradient growth"}
_NUMERIC |= {"at risk from", "sick from", "value"}
_NUMERIC |= {"before", "after", "gap before", "rank before", "gradient before"}
# Same shapes as the verdicts, and a hollow ring for what nobody looked at.
_STATE_SIGNS = {State.FOUND: "■", State.CLEAN: "●", State.NOT_CHECKED: "○"}


def safe(text: object) -> str:
    """The only way a string of the document enters the page."""
    return escape(printable(text), quote=True)


def verdict_sign(document: Mapping[str, Any]) -> str:
    """Shape and word of the verdict on a network, or on one depth of it."""
    icon = f'<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{symbol(look(document), 8, 8, 5.5)}</svg>'
    return f'<span class="verdict">{icon}{safe(document["verdict"])}</span>'


def overview(documents: Sequence[Document]) -> str:
    """One row a network, linked to its section."""
    rows = []
    for index, document in enumerate(documents, start=1):
        first = first_sick(document)
        where = UNDEFINED if first is None else _name(layer_name(document["layers"][first]))
        name = safe(shortened(document["name"], _LONGEST_NAME)) or "(no name)"
        link = f'<a href="#network-{index}">{name}</a>'
        rows.append(
            f'<tr><td class="n">{index}</td><td class="name">{link}</td><td>{verdict_sign(document)}</td>'
            f'<td>{safe(", ".join(document["symptoms"])) or "none"}</td><td class="name">{where}</td>'
            f'<td class="n">{fixed(document["gap"])}</td><td class="n">{rank_at_end(document)}</td>'
            f'<td class="n">{slope(document)}</td></tr>'
        )
    heads = ("#", "network", "verdict", "symptoms", "begins at", "gap", "rank at end", "slope ± se")
    return table(heads, rows)


def findings_table(document: Document) -> str:
    """Every check: found first, then what was not checked, then what is clean."""
    order = (State.FOUND, State.NOT_CHECKED, State.CLEAN)
    rows = [_finding(finding) for state in order for finding in findings(document, state)]
    return table(("state", "check", "result", "begins at", "measured", "limit"), rows)


def layers_table(layers: Iterable[tuple[int, LayerRow]], document: Document) -> str:
    """Numbers of the given layers with their index; rows that findings name say so."""
    begin = marks(document)
    rows = [_layer(index, layer, begin.get(index, [])) for index, layer in layers]
    heads = ("#", "layer", "kind", "shape", "rms", "overlap", "rank", "gap", "isometry gap")
    return table((*heads, "gradient", "status"), rows, "layers")


def table(heads: Iterable[str], rows: Sequence[str], look: str = "plain") -> str:
    """Rows that are markup already under their heads; wider than the page, it scrolls."""
    cells = "".join(f'<th class="n">{head}</th>' if head in _NUMERIC else f"<th>{head}</th>" for head in heads)
    body = f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>"
    return f'<div class="scroll"><table class="{look}">{body}</table></div>'


def _name(name: str) -> str:
    return f"<code>{safe(shortened(name, _LONGEST_NAME))}</code>"


def _finding(finding: Mapping[str, Any]) -> str:
    state = State(finding["state"])
    at_risk = finding["severity"] == Verdict.AT_RISK
    severity = f", {Verdict(finding['severity']).lower()}" if state is State.FOUND else ""
    where = "" if finding["layer"] is None else _name(finding["layer"])
    value = significant(finding["value"])
    error = "" if finding["standard_error"] is None else f" ± {significant(finding['standard_error'])}"
    unit = "" if finding["unit"] is None else f"<small>{safe(finding['unit'])}</small>"
    row_look = "found-risk" if at_risk else state.replace(" ", "-")
    sign = f'<span aria-hidden="true">{"▲" if at_risk else _STATE_SIGNS[state]}</span>'
    return (
        f'<tr class="{row_look}"><td class="state">{sign} {state}{severity}</td>'
        f'<td class="check">{safe(finding["check"])}<small>{safe(finding["symptom"])}</small></td>'
        f'<td>{safe(finding["reason"])}</td><td class="name">{where}</td>'
        f'<td class="n">{value}{error}{unit}</td><td class="n">{significant(finding["threshold"])}</td></tr>'
    )


def _layer(index: int, layer: LayerRow, symptoms: Sequence[str]) -> str:
    effective = metric(layer, "effective_rank")
    cells = (
        number(layer["rms"]),
        fixed(metric(layer, "overlap")),
        UNDEFINED if effective is None else f"{rank(effective)} / {possible_rank(layer)}",
        fixed(metric(layer, "gap")),
        isometry_gap(layer),
        number(layer["gradient_norm"]),
    )
    numbers = "".join(f"<td>{cell}</td>" for cell in cells)
    status = f"<strong>◀ {safe(begins(symptoms))}</strong>" if symptoms else safe(layer["status"])
    opening = '<tr class="first">' if symptoms else "<tr>"
    # No class on the cells: 2000 rows of them would double the page; the style sheet counts columns.
    return (
        f"{opening}<td>{index + 1}</td><td>{safe(shortened(layer_name(layer), _LONGEST_NAME))}</td>"
        f"<td>{safe(layer['kind'])}</td><td>{shape(layer['shape'])}</td>{numbers}<td>{status}</td></tr>"
    )


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
