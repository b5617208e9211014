"""The page of a comparison: both verdicts, the numbers, what went and came, profiles overlaid, the plane."""

from collections.abc import Mapping, Sequence
from typing import Any

from orthoscope.report.comparison_charts import comparison_charts
from orthoscope.report.comparison_plane import comparison_plane
from orthoscope.report.lists import environment
from orthoscope.report.paired_layers import spaced_weights
from orthoscope.report.reading import Document
from orthoscope.report.shell import shell
from orthoscope.report.signs import look
from orthoscope.report.tables import safe, table, verdict_sign
from orthoscope.report.viewer import reference_cloud
from orthoscope.report.wording import LONGEST_TITLE, UNDEFINED, fixed, layer_name, number, shortened

_BOTH = ("before", "after")
_COLUMNS = (("gap", fixed), ("effective_rank", number), ("gradient_norm", number))


def comparison_page(document: Document) -> str:
    """One self-contained page."""
    names = dict.fromkeys(
        shortened(document[when]["name"], LONGEST_TITLE) or "a network without a name" for when in _BOTH
    )
    content = f"{change_banner(document)}{comparison_parts(document)}{environment(document)}"
    return shell("Orthoscope comparison", safe(" → ".join(names)), f'<section class="network">{content}</section>\n')


def change_banner(document: Document) -> str:
    """Both verdicts and the sentence, in the colour of what it is now."""
    before, after = ({"verdict": document["verdict"][when]} for when in _BOTH)
    signs = f"{verdict_sign(before)}<span>→</span>{verdict_sign(after)}"
    return f'<div class="banner {look(after)}">{signs}<p>{safe(document["summary"])}</p></div>'


def comparison_parts(document: Document) -> str:
    """All below the banner."""
    charts = "".join(comparison_charts(document))
    profiles = f'<h3>Depth profiles, before and after</h3><div class="profiles">{charts}</div>' if charts else ""
    return (
        f"<h3>Numbers</h3>{_numbers(document['numbers'])}"
        f"{_findings('No longer found', document['vanished'])}{_findings('Newly found', document['appeared'])}"
        f"{profiles}<h3>Trainability plane</h3>{comparison_plane(document, reference_cloud())}"
        f"{_layers(document['layers'])}"
    )


def _numbers(numbers: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        f"<tr><td>{safe(row['name'])}<small>{safe(row['unit'])}</small></td>"
        + "".join(f'<td class="n">{number(row[when], 3)}</td>' for when in _BOTH)
        + "</tr>"
        for row in numbers
    ]
    return table(("", *_BOTH), rows, "compared")


def _findings(title: str, found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return ""
    rows = [
        f"<tr><td>{verdict_sign({'verdict': one['severity']})}</td>"
        f'<td class="check">{safe(one["check"])}<small>{safe(one["symptom"])}</small></td>'
        f'<td>{safe(one["reason"])}</td><td class="name"><code>{safe(one["layer"] or "")}</code></td></tr>'
        for one in found
    ]
    return f"<h3>{title}</h3>{table(('severity', 'check', 'result', 'begins at'), rows)}"


def _layers(pairs: Sequence[Mapping[str, Any]]) -> str:
    shown = spaced_weights(pairs)
    if not shown:
        return ""
    rows = []
    for pair in shown:
        cells = "".join(
            f'<td class="n">{_of(pair[when], name, write)}</td>' for name, write in _COLUMNS for when in _BOTH
        )
        rows.append(f'<tr><td class="name">{safe(shortened(layer_name(pair), LONGEST_TITLE))}</td>{cells}</tr>')
    heads = ("layer", "gap before", "after", "rank before", "after", "gradient before", "after")
    left_out = sum(pair["depth"] is not None for pair in pairs) - len(shown)
    title = f"Weight layers ({left_out} between them left out)" if left_out else "Weight layers"
    return f"<h3>{title}</h3>{table(heads, rows)}"


def _of(profile: Mapping[str, Any] | None, name: str, write: Any) -> str:
    return UNDEFINED if profile is None else str(write(profile[name]))
