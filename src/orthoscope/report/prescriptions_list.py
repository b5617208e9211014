"""What to change, without a script: why, what theory promises, what was measured, the code."""

from collections.abc import Mapping
from typing import Any

from orthoscope.report.reading import Document
from orthoscope.report.tables import safe, verdict_sign
from orthoscope.report.wording import fixed, signed


def prescriptions_list(document: Document) -> str:
    """The prescriptions of a diagnosis in the order given; nothing if it has none."""
    items = [f"<li>{_item(one)}</li>" for one in document.get("prescriptions") or ()]
    return f'<h3>What to change</h3><ol class="prescriptions">{"".join(items)}</ol>' if items else ""


def code_block(code: str) -> str:
    """Code to paste, line by line as it is."""
    lines = "\n".join(map(safe, code.splitlines()))
    return f"<pre><code>{lines}</code></pre>" if code else ""


def _item(one: Mapping[str, Any]) -> str:
    verdict = "" if one["verdict"] is None else verdict_sign(one)
    outcome = "advice for the training loop" if one["advice"] else one["outcome"]
    effects = "".join(f"<p>{name}: {_effect(one[name])}</p>" for name in ("predicted", "measured") if one[name])
    heading = f"<h4>{safe(one['name'])} {verdict} <i>{safe(outcome)}</i></h4>"
    return f"{heading}<p>{safe(one['why'])}</p>{effects}{code_block(one['code'])}"


def _effect(effect: Mapping[str, Any]) -> str:
    if effect["gap"] is None and effect["slope"] is None:
        return safe(effect["reason"] or "not known")
    return f"gap {fixed(effect['gap'])}, slope {signed(effect['slope'])}"
