"""The one definition of every document: typed dataclasses, from which schema.json and the page's types are generated.

`diagnosis`, `prediction`, `residual`, `changes`, `training` and `evidence` hold the dataclasses, `conversion` turns
them into JSON data and back, `quantities` says what every number means, and `generation` writes the generated files.
"""

from collections.abc import Mapping
from typing import Any, get_args

from orthoscope.report.document.changes import (
    ChangedFinding,
    ComparisonDocument,
    ConfirmationDocument,
    Confirmations,
    FixDocument,
    FixOutcome,
    KindPair,
    LayerPair,
    NumberPair,
    Run,
    Verdicts,
)
from orthoscope.report.document.conversion import Number, Part, copied, finite, from_data, to_data
from orthoscope.report.document.diagnosis import (
    DiagnosisDocument,
    Expected,
    Finding,
    Gram,
    Layer,
    Overlaps,
    Picture,
    PredictionSummary,
    ReportDocument,
    Risk,
    SeedRange,
    Seeds,
    Slope,
    View,
    WeightSpectrum,
)
from orthoscope.report.document.evidence import CheckedStatement, ComparedNumber, EvidenceDocument, ExperimentRecord
from orthoscope.report.document.parts import Effect, Environment, Omission, Prescription, Source
from orthoscope.report.document.prediction import Depth, DepthFinding, Limit, PredictionDocument, Unchecked
from orthoscope.report.document.quantities import QUANTITIES, Quantity, quantities, quantity
from orthoscope.report.document.residual import (
    AlignmentStatement,
    Block,
    DepthLaw,
    LogSingularValues,
    ResidualDocument,
)
from orthoscope.report.document.training import (
    MuonPlanDocument,
    PerProcess,
    Snapshot,
    StepCost,
    Update,
    WatchDocument,
    WatchRecordDocument,
)

Document = (
    DiagnosisDocument
    | PredictionDocument
    | ResidualDocument
    | ComparisonDocument
    | FixDocument
    | ConfirmationDocument
    | WatchDocument
)
DRAWN: tuple[type[Part], ...] = get_args(Document)  # kinds that have views
KINDS: dict[str, type[Part]] = {  # by schema
    str(kind.schema): kind  # type: ignore[attr-defined]
    for kind in (*DRAWN, ReportDocument, WatchRecordDocument, MuonPlanDocument, EvidenceDocument)
}


def as_document(content: Any) -> Document:
    """Return a document as its dataclass: itself, or read from its JSON data.

    Raises:
        ValueError: If it has no schema that this version draws, or does not fit its schema.
    """
    if isinstance(content, Document):
        return content
    schema = content.get("schema") if isinstance(content, Mapping) else None
    known = {name.partition("/")[0]: kind for name, kind in KINDS.items() if kind in DRAWN}
    kind = known.get(schema.partition("/")[0]) if isinstance(schema, str) else None
    if kind is None:
        names = ", ".join(name for name, one in KINDS.items() if one in DRAWN)
        raise ValueError(f"cannot draw a document of schema {schema!r}: this version draws {names}")
    document: Document = from_data(kind, content)  # type: ignore[assignment]
    return document


__all__ = [
    "QUANTITIES", "AlignmentStatement", "Block", "ChangedFinding", "CheckedStatement", "ComparedNumber",
    "ComparisonDocument", "ConfirmationDocument", "Confirmations", "Depth", "DepthFinding", "DepthLaw",
    "DiagnosisDocument", "Document", "Effect", "Environment", "EvidenceDocument", "Expected",
    "ExperimentRecord", "Finding", "FixDocument", "FixOutcome", "Gram", "KindPair", "Layer", "LayerPair",
    "Limit", "LogSingularValues", "MuonPlanDocument", "Number", "NumberPair", "Omission",
    "Overlaps", "Part", "PerProcess", "Picture", "PredictionDocument", "PredictionSummary", "Prescription",
    "Quantity", "ReportDocument", "ResidualDocument", "Risk", "Run", "SeedRange", "Seeds", "Slope", "Snapshot",
    "Source", "StepCost", "Unchecked", "Update", "Verdicts", "View", "WatchDocument", "WatchRecordDocument",
    "WeightSpectrum", "as_document", "copied", "finite", "from_data", "quantities", "quantity", "to_data",
]  # fmt: skip
