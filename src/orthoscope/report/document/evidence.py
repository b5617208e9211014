"""The document of evidence: experiments of the papers, run or read from their results."""

from dataclasses import dataclass
from typing import Annotated, Literal

from orthoscope.report.document.conversion import Number, Part
from orthoscope.report.document.parts import NOT_NEGATIVE, Environment


@dataclass(frozen=True, kw_only=True)
class CheckedStatement(Part):
    """A statement about the rows of an experiment."""

    statement: Annotated[str, "What it says."]
    holds: Annotated[bool, "Whether it holds."]


@dataclass(frozen=True, kw_only=True)
class ComparedNumber(Part):
    """A number of the paper beside ours and its interval; null where infinite."""

    quantity: Annotated[str, "What is compared."]
    printed: Annotated[Number | None, "The printed number; null for a picture or a trend."]
    ours: Annotated[Number | None, "The reproduced number."]
    low: Annotated[Number | None, "Lower end of its interval."]
    high: Annotated[Number | None, "Upper end of its interval."]
    verdict: Annotated[
        Literal["agrees", "differs", "corrected", "measured"],
        "Whether they agree; measured if there is nothing that ours could agree with.",
    ]
    why: Annotated[str, "One sentence: why the verdict is this one."]


@dataclass(frozen=True, kw_only=True)
class ExperimentRecord(Part):
    """One figure or table: what is claimed, what was checked, and the printed numbers beside ours."""

    name: Annotated[str, "Paper and figure, as in li2023/down_sampling.", {"pattern": "^[^/]+/[^/]+$"}]
    claim: Annotated[str, "What the paper claims."]
    kind: Annotated[Literal["simulation", "training"], "What its runs are."]
    state: Annotated[Literal["holds", "fails", "error"], "Every check holds; one does not; it did not run to its end."]
    seeds: Annotated[int, "Number of seeds.", NOT_NEGATIVE]
    rows: Annotated[int, "Rows of its table.", NOT_NEGATIVE]
    seconds: Annotated[Number, "Time of all its runs on one core.", NOT_NEGATIVE]
    checks: Annotated[tuple[CheckedStatement, ...], "Statements that were checked."]
    evidence: Annotated[tuple[ComparedNumber, ...], "Printed numbers beside ours."]
    error: Annotated[str | None, "Why it did not run to its end; null if it did."]


@dataclass(frozen=True, kw_only=True)
class EvidenceDocument(Part):
    """Experiments of the papers, run or read from their results."""

    schema: Literal["orthoscope.evidence/2"] = "orthoscope.evidence/2"
    setting: Annotated[Literal["quick", "default", "full"], "How large the runs are; full is the paper's own setting."]
    experiments: Annotated[tuple[ExperimentRecord, ...], "The experiments."]
    environment: Annotated[Environment, "What the numbers were made with."]
