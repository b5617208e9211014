"""A document of every kind that has a page, made by hand, with a text of your choice wherever a text may stand."""

from collections.abc import Callable
from typing import Any

from orthoscope.report.document import WatchDocument
from report.changes import comparison, fix
from report.handmade import ENVIRONMENT, EXPECTED, depth, document, finding, layer, prediction

Document = dict[str, Any]


def diagnosis(text: str = "layer") -> Document:
    layers = [layer(text, 1, kind=text, also=[text]), layer("b", 2), layer(text, 3, predicted=dict(EXPECTED))]
    return document(
        layers,
        name=text,
        verdict="SICK",
        summary=text,
        symptoms=["collapse"],
        findings=[finding(text, "found", layer=text, reason=text, unit=text)],
        gradient_of=text,
        notes=[text],
        unobserved=[{"name": text, "reason": text}],
        environment=ENVIRONMENT | {"python": text},
        prediction={"reason": None, "slope": 0.1, "sources": [{"source": text, "assumes": text}]},
        residual=residual(text),
    )


def forecast(text: str = "layer") -> Document:
    statement = {"source": text, "assumes": text}
    made = prediction(name=text, summary=text, sources=[statement], environment=ENVIRONMENT | {"python": text})
    for row in made["depths"]:
        row["findings"] = [found | {"check": text, "reason": text} for found in row["findings"]]
    made["limit"] = [{"name": text, "value": 0.1, "unit": text, **statement}]
    made["not_checked"] = [{"check": text, "reason": text}]
    return made


def residual(text: str = "layer", blocks: int = 4) -> Document:
    """Blocks of which the last is dead, so that it can be compared with no other."""
    dead = blocks - 1
    return {
        "schema": "orthoscope.residual/1",
        "name": text,
        "verdict": "PARTLY ALIGNED",
        "summary": f"RA1 holds. Neither good nor bad news: {text}",
        "statements": [
            {"key": f"RA{n}", "statement": text, "quantity": text, "value": value, "limit": 0.3, "above": n != 2}
            | {"holds": holds}
            for n, value, holds in ((1, 0.61, True), (2, 0.9, False), (3, None, None), (4, 0.2, False))
        ],
        "samples": 2,
        "classes": 10,
        "line_shape": 1.5,
        "step_cosine": 0.61,
        "spacing_variation": 0.2,
        "misalignment": 0.9,
        "reversed_misalignment": None,
        "law": {"slope": 0.5, "intercept": 1.0, "r_squared": 0.9, "exponent": -1.0},
        "whole": {"mean_log": -0.1, "spread_log": 1.4},
        "blocks": [
            {
                "name": f"{text}.{index}",
                "skip": "identity",
                "activation": text,
                "inputs": 8,
                "outputs": 8 * (1 + (index == 0)),
                "singular_values": [1 / (1 + index / 2), 0.1],
                "relative_error": 0.0,
                "rank_ratio": None if index == dead else 0.1 * index,
                "top_energy": 0.9,
                "misalignment": 0.8,
                "step": 1.0 + index,
                "dead": index == dead,
            }
            for index in range(blocks)
        ],
        "pairs": [
            [None if dead in (i, j) else min(1.0, 0.3 * abs(i - j)) for j in range(blocks)] for i in range(blocks)
        ],
        "left_out": [{"name": text, "reason": text}],
        "notes": [text],
        "seconds": 0.5,
        "environment": ENVIRONMENT | {"python": text},
    }


def confirmation(text: str = "layer") -> Document:
    """Three learning rates, the largest of which diverges after two steps."""
    losses = {1e-2: [2.5, 900.0, None], 1e-3: [2.4, 1.2, 0.6, 0.3], 1e-4: [2.4, 2.3, 2.2, 2.1]}
    return {
        "schema": "orthoscope.confirmation/1",
        "name": text,
        "verdict": "HEALTHY",
        "outcome": "trains",
        "confirmed": True,
        "summary": f"trains: {text}",
        "final_loss": 0.3,
        "guessing_loss": 2.3,
        "reference_loss": 0.2,
        "reference": text,
        "source": text,
        "steps": 10,
        "runs": [
            {"learning_rate": rate, "final": run[-1], "best": min(filter(None, run)), "stopped": text, "losses": run}
            for rate, run in losses.items()
        ],
        "environment": ENVIRONMENT | {"python": text},
    }


def watch(text: str = "layer") -> Document:
    """Five snapshots, of which one has no slope, the update of one matrix, losses of which one is nan, a warning."""
    update = {
        "step": 8,
        "optimizer": text,
        "weight": text,
        "shape": [4, 3],
        "gradient_norm": 1.5,
        "weight_norm": 2.0,
        "update_norm": 0.02,
        "relative_size": 0.01,
        "relative_spectral_size": None,
        "rms_operator_norm": 0.3,
        "spectrum": [1.0, 0.5, 0.4, 0.3, None],
        "effective_rank": 2.5,
        "stable_rank": 1.5,
        "semi_orthogonality_defect": 0.4,
        "update_alignment": -0.1,
        "left_share": 0.1,
        "right_share": None,
        "independence": 0.2,
        "independence_change": 0.01,
        "angle_change": 0.02,
        "conformality_defect": 2.0,
    }
    history = []
    for step in range(0, 10, 2):
        scalars = {"worst_gap": 0.1 * step, "min_effective_rank": 9.0 - step, "mean_overlap": 0.05 * step}
        scalars |= {"gradient_slope": 0.01 * step} if step != 4 else {}
        record = {"step": step, "verdict": "AT RISK", "summary": text, "seconds": 0.1}
        history.append(record | {"scalars": {f"orthoscope/{name}": value for name, value in scalars.items()}})
    return {
        "schema": WatchDocument.schema,
        "name": text,
        "every": 2,
        "steps": 9,
        "history": history,
        "latest": diagnosis(text),
        "last_healthy_step": 2,
        "last_healthy": diagnosis(text),
        "losses": [{"step": step, "loss": 2.5 - 0.2 * step if step != 5 else None} for step in range(9)],
        "guessing": 2.3,
        "warnings": [
            {"kind": "learning rate", "step": 7, "sentence": text, "layer": text, "value": 1.0, "suggestion": 0.1}
        ],
        "rows": [update | {"step": 6, "gradient_norm": 7.5}, update],
        "skipped": [{"name": text, "reason": text}],
        "problems": [text],
        "stopped": None,
        "environment": ENVIRONMENT | {"python": text},
    }


KINDS: dict[str, Callable[[str], Document]] = {
    "diagnosis": diagnosis,
    "prediction": forecast,
    "residual": residual,
    "comparison": comparison,
    "fix": fix,
    "confirmation": confirmation,
    "watch": watch,
}


def dashes() -> Document:
    """A prediction of one depth at which theory has no number at all."""
    return prediction(
        1, None, None, depths=[depth(1) | dict.fromkeys(depth(1).keys() - {"depth", "verdict", "findings"})]
    )
