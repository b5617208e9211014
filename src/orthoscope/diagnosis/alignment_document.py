"""Residual alignment as plain data: the versioned document that its views are drawn from."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from orthoscope.diagnosis.document import environment, finite
from orthoscope.metrics.jacobians.medians import defined_median

if TYPE_CHECKING:
    from orthoscope.diagnosis.alignment import Alignment, Score

SCHEMA = "orthoscope.residual/1"


def alignment_document(alignment: "Alignment") -> dict[str, Any]:
    """Strict JSON: what is undefined or infinite is null; numbers are medians over samples."""
    scores = alignment.scores
    return {
        "schema": SCHEMA,
        "name": alignment.name,
        "verdict": alignment.verdict,
        "summary": alignment.summary,
        "statements": [_statement(score) for score in alignment.statements],
        "samples": alignment.jacobians[0].operator.samples,
        "classes": alignment.classes,
        "line_shape": _middle(scores.line_shape),
        "step_cosine": _middle(scores.step_cosine),
        "spacing_variation": _middle(scores.spacing_variation),
        "misalignment": _middle(scores.misalignment),
        "reversed_misalignment": _middle(scores.reversed_misalignment),
        "law": {name: finite(float(value)) for name, value in alignment.law._asdict().items()},
        "whole": None
        if alignment.whole is None
        else {"mean_log": finite(float(alignment.whole.mean)), "spread_log": finite(float(alignment.whole.spread))},
        "blocks": [_block(alignment, index) for index in range(len(alignment.jacobians))],
        "pairs": [[_middle(pair) for pair in row] for row in scores.pairs],
        "left_out": [{"name": name, "reason": why} for name, why in alignment.jacobians.left_out.items()],
        "notes": list(alignment.notes),
        "seconds": alignment.seconds,
        "environment": environment(),
    }


def _statement(score: "Score") -> dict[str, Any]:
    return {
        "key": score.key,
        "statement": score.statement,
        "quantity": score.quantity,
        "value": finite(score.value),
        "limit": score.limit,
        "above": score.above,
        "holds": score.holds,
    }


def _block(alignment: "Alignment", index: int) -> dict[str, Any]:
    block, scores = alignment.jacobians[index], alignment.scores
    others = [other for other in range(len(alignment.jacobians)) if other != index]
    outputs, inputs = block.operator.shape
    error = (block.spectrum.errors[:, 0] / block.singular_values[:, 0]).nan_to_num()
    step = block.output - block.input if block.output.shape == block.input.shape else None
    return {
        "name": block.name,
        "skip": block.skip,
        "activation": block.activation or None,
        "inputs": inputs,
        "outputs": outputs,
        "singular_values": [_middle(value) for value in block.singular_values.mT],
        "relative_error": _middle(error),
        "rank_ratio": _middle(scores.rank_ratio[index]),
        "top_energy": _middle(scores.top_energy[index]),
        "misalignment": _middle(scores.pairs[index, others].nanmean(0)) if others else None,
        "step": None if step is None else _middle(torch.linalg.vector_norm(step.double(), dim=-1)),
        "dead": bool(scores.dead[index].all()),
    }


def _middle(values: Tensor) -> float | None:
    return finite(defined_median(values))
