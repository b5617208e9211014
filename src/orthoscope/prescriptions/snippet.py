"""The code that makes a change again on the user's own network."""

from collections.abc import Sequence

from orthoscope.prescriptions.prescription import Prescription

_BUILD = "model = ...  # your network, built as before"
_BATCH = "batch = ...  # what it is called with"


def snippet(steps: Sequence[Prescription], build: str = _BUILD, batch: str = _BATCH, weights: str | None = None) -> str:
    """Imports, the network, every step in order, and the fixed weights if they were written; "" if there is no step.

    Weights are loaded after the changes: these decide which modules there are.
    """
    if not steps:
        return ""
    changes = [change for step in steps for change in step.changes]
    lines = ["import torch"] if "torch." in build or any(change.seed is not None for change in changes) else []
    lines += ["import orthoscope", *(["from safetensors.torch import load_model"] if weights else []), "", build]
    if any(change.batch for change in changes):
        lines.append(batch)
    lines.append("")
    for step in steps:
        lines.append(f"# {step.name}: {' '.join(step.why.split())}")  # a module may print over several lines
        lines += [change.code for change in step.changes]
    if weights is not None:
        lines.append(f"load_model(model, {weights!r})  # the very numbers that were measured")
    return "\n".join(lines) + "\n"
