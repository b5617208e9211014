"""The document of a prediction: a network that was not built, depth by depth."""

from dataclasses import dataclass
from typing import Annotated, Literal

from orthoscope.findings import Symptom, Verdict
from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.parts import NOT_NEGATIVE, POSITIVE, Environment, Source


@dataclass(frozen=True, kw_only=True)
class DepthFinding(Part):
    """What one check found at one depth."""

    check: Annotated[str, "Name of the check."]
    symptom: Annotated[Symptom, "What the check looks for."]
    severity: Annotated[Verdict, "How bad it is."]
    reason: Annotated[str, "One sentence: what was found."]


@dataclass(frozen=True, kw_only=True)
class Depth(Part):
    """A network of this many hidden layers: what leaves the last of them; null where theory has no number."""

    depth: Annotated[int, "Number of hidden layers.", POSITIVE]
    rms: Annotated[Number | None, "Root mean square of the output."]
    overlap: Annotated[Number | None, "Mean cosine similarity over pairs of samples."]
    gap: Annotated[Number | None, "Orthogonality gap."]
    effective_rank: Annotated[Number | None, "Effective rank of the samples."]
    isometry_gap: Annotated[Number | None, "Isometry gap."]
    overlap_deviation: Annotated[Number | None, "Standard deviation of the cosine of one pair of samples."]
    gradient_growth: Annotated[
        Number | None, "Growth of the log of the gradient norm from the output to the input, in e-folds."
    ]
    verdict: Annotated[Verdict, "Verdict on a network of this depth."]
    findings: Annotated[tuple[DepthFinding, ...], "What was found; checks that found nothing are left out."]


@dataclass(frozen=True, kw_only=True)
class Unchecked(Part):
    """A check that theory has no number for."""

    check: Annotated[str, "Name of the check."]
    reason: Annotated[str, "Why it was not checked."]


@dataclass(frozen=True, kw_only=True)
class Limit(Part):
    """Where a number would end if the network were infinitely deep."""

    name: Annotated[str, "Name of the number."]
    value: Annotated[Number | None, "The limit; null if there is none."]
    unit: Annotated[str, "Its unit."]
    source: Annotated[str, "Place in the literature."]
    assumes: Annotated[str, "What must hold for it."]


@dataclass(frozen=True, kw_only=True)
class PredictionDocument(Part, drawn=True):
    """A network that was not built, by depth: numbers that theory gives, and what the rules make of them."""

    schema: Literal["orthoscope.prediction/1"] = "orthoscope.prediction/1"
    name: Annotated[str, "What was asked for."]
    summary: Annotated[str, "One sentence: how deep it trains, and what ends it."]
    samples: Annotated[int, "Samples in the batch.", POSITIVE]
    width: Annotated[int, "Units of a hidden layer.", POSITIVE]
    overlap: Annotated[Number | None, "Mean cosine over pairs of samples before the first layer."]
    deepest: Annotated[
        int | None, "Largest depth up to which every depth is healthy; null if not even the first is.", POSITIVE
    ]
    at_risk_from: Annotated[int | None, "Least depth that is not healthy.", POSITIVE]
    sick_from: Annotated[int | None, "Least depth that is sick.", POSITIVE]
    depths: Annotated[tuple[Depth, ...], "Every depth that was asked for.", {"minItems": 1}]
    not_checked: Annotated[tuple[Unchecked, ...], "Checks that theory has no number for."]
    limit: Annotated[tuple[Limit, ...], "Numbers of an infinitely deep network."]
    sources: Annotated[tuple[Source, ...], "Statements that the prediction rests on."]
    seconds: Annotated[Number, "Time that it took.", NOT_NEGATIVE]
    environment: Annotated[Environment, "What the numbers were made with."]

    def __post_init__(self) -> None:
        super().__post_init__()
        depths = [row.depth for row in self.depths]
        for name in ("deepest", "at_risk_from", "sick_from"):
            if getattr(self, name) not in (None, *depths):
                raise ValueError(f"has {name} {getattr(self, name)}, expected one of its depths")

    @property
    def possible_rank(self) -> int:
        """Largest rank that the samples can have in a hidden layer."""
        return min(self.samples, self.width)
