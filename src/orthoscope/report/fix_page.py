"""The page of a fix: the network as it was with what to change, then what the change did."""

from collections.abc import Mapping
from typing import Any

from orthoscope.report.comparison_page import change_banner, comparison_parts
from orthoscope.report.html import details_list, safe
from orthoscope.report.network_page import code_block, network
from orthoscope.report.reading import Document
from orthoscope.report.viewer import viewer_page
from orthoscope.report.wording import LONGEST_TITLE, shortened


def fix_page(document: Document) -> str:
    """One self-contained page: the viewer on the network before, the comparison below its prescriptions."""
    before = prescribed(document)
    title = safe(shortened(document["name"], LONGEST_TITLE)) or "a network without a name"
    return viewer_page([before], title, network([before], 0), beside=_change(document))


def prescribed(document: Document) -> Document:
    """The diagnosis before a fix, with what was prescribed: what was kept first, in its order, then the rest."""
    kept = document["steps"]
    names = {step["name"] for step in kept}
    rest = [step for step in document["plan"] if step["name"] not in names and _concerns(step)]
    return {**document["comparison"]["before"], "prescriptions": [*kept, *rest]}


def _concerns(step: Mapping[str, Any]) -> bool:
    """Whether it is about this network at all."""
    return not step["outcome"].startswith("does not apply")


def _change(document: Document) -> str:
    """What was done and what it changed; one sentence where nothing was."""
    sentence = f"<p>{safe(document['sentence'])}</p>"
    if not document["steps"]:
        return f'<section class="beside" id="change"><h3>What was changed</h3>{sentence}</section>'
    comparison = document["comparison"]
    code = f"<h3>Code to paste</h3>{code_block(document['snippet'])}"
    return (
        f'<section class="beside" id="change"><h3>What was changed</h3>{change_banner(comparison)}{sentence}'
        f"{_confirmation(document)}{code}{comparison_parts(comparison)}</section>"
    )


def _confirmation(document: Document) -> str:
    both = document["confirmation"]
    if both is None:
        return ""
    items = [f"{when}: {safe(both[when]['summary'])}" for when in ("before", "after")]
    return details_list("Confirmed by a short training", items, is_open=True)
