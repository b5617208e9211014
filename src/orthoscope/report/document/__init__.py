"""The one definition of every document: typed dataclasses, from which schema.json and the page's types are generated.

`diagnosis`, `inside`, `prediction`, `residual`, `changes`, `training` and `evidence` hold the dataclasses,
`conversion` turns them into JSON data and back, and `quantities` says what every number means.
`viewer/generate.py` writes what is generated.
"""

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
from orthoscope.report.document.conversion import KINDS, Number, Part, as_document, copied, finite, from_data, to_data
from orthoscope.report.document.diagnosis import (
    DiagnosisDocument,
    Expected,
    Finding,
    Gram,
    InitialLoss,
    Layer,
    Learning,
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
from orthoscope.report.document.inside import Attention, Experts, OverTime, StreamPoint
from orthoscope.report.document.parts import Effect, Environment, Omission, Prescription, Source
from orthoscope.report.document.prediction import Depth, DepthFinding, Limit, PredictionDocument, Unchecked
from orthoscope.report.document.quantities import QUANTITIES, Group, Quantity, quantities, quantity
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
    StepLoss,
    Update,
    WatchDocument,
    WatchRecordDocument,
    WatchWarning,
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

__all__ = [
    "KINDS", "QUANTITIES", "AlignmentStatement", "Attention", "Block", "ChangedFinding", "CheckedStatement",
    "ComparedNumber", "ComparisonDocument", "ConfirmationDocument", "Confirmations", "Depth", "DepthFinding",
    "DepthLaw", "DiagnosisDocument", "Document", "Effect", "Environment", "EvidenceDocument", "Expected",
    "ExperimentRecord", "Experts", "Finding", "FixDocument", "FixOutcome", "Gram", "Group", "InitialLoss",
    "KindPair", "Layer", "LayerPair", "Learning", "Limit", "LogSingularValues", "MuonPlanDocument", "Number",
    "NumberPair", "Omission", "OverTime", "Overlaps", "Part", "PerProcess", "Picture", "PredictionDocument",
    "PredictionSummary", "Prescription", "Quantity", "ReportDocument", "ResidualDocument", "Risk", "Run",
    "SeedRange", "Seeds", "Slope", "Snapshot", "Source", "StepCost", "StepLoss", "StreamPoint", "Unchecked",
    "Update", "Verdicts", "View", "WatchDocument", "WatchRecordDocument", "WatchWarning", "WeightSpectrum",
    "as_document", "copied", "finite", "from_data", "quantities", "quantity", "to_data",
]  # fmt: skip
