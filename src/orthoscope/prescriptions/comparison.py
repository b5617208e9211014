"""A network before and after a change: the two axes of trainability, every number, and the rule that keeps a change."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orthoscope.diagnosis import Diagnosis
from orthoscope.diagnosis.document import Viewed, environment
from orthoscope.findings import Finding, State, Symptom, Verdict
from orthoscope.prescriptions.prescription import Effect
from orthoscope.report import comparison_markdown
from orthoscope.report.document import (
    ChangedFinding,
    ComparisonDocument,
    DiagnosisDocument,
    KindPair,
    Layer,
    LayerPair,
    NumberPair,
    ReportDocument,
    Verdicts,
    copied,
    from_data,
)

# Overflowing outputs are a failure of the forward pass, whatever the symptom.
_FORWARD_CHECKS = ("finite outputs",)
# Symptoms that other weights may change; not those of the batch, the loss, or what is trainable.
_OF_SIGNALS = (Symptom.COLLAPSE, Symptom.VANISH, Symptom.EXPLODE)
COMFORT = math.log(10)  # e-folds of gradient growth from which on a healthy verdict is not taken for granted


@dataclass(frozen=True)
class Axis:
    """One direction of the signal: severity of its findings, and the number that should be small."""

    severity: Verdict
    number: float  # infinite if it could not be measured

    def improves_on(self, before: "Axis") -> bool:
        """True for a milder severity, or the same with a smaller number."""
        return (self.severity.rank, self.number) < (before.severity.rank, before.number)


@dataclass(frozen=True)
class Axes:
    """Forward: the samples, by the orthogonality gap. Backward: the gradients, by the growth of the log-gradient."""

    forward: Axis
    backward: Axis
    verdict: Verdict

    @property
    def comfortable(self) -> bool:
        """Healthy, with gradients even enough that a small change does not undo it."""
        return self.verdict is Verdict.HEALTHY and self.backward.number < COMFORT

    @property
    def badness(self) -> tuple[float, ...]:
        """Smaller is better; the verdict counts first."""
        severities = self.forward.severity.rank + self.backward.severity.rank
        return float(self.verdict.rank), float(severities), self.forward.number + self.backward.number / COMFORT


def axes(diagnosis: Diagnosis | DiagnosisDocument) -> Axes:
    """The axes of a diagnosis, or of its document."""
    growth = _growth(diagnosis)
    return Axes(
        Axis(_severity(diagnosis, forward=True), _or_infinite(diagnosis.gap)),
        Axis(_severity(diagnosis, forward=False), _or_infinite(growth and abs(growth))),
        diagnosis.verdict,
    )


def _growth(diagnosis: Diagnosis | DiagnosisDocument) -> float | None:
    """Growth of the log-gradient from the last weight layer to the first; None if no slope was measured."""
    if isinstance(diagnosis, Diagnosis):
        return None if diagnosis.gradients is None else diagnosis.gradients.growth
    slope = diagnosis.slope
    return None if slope.value is None else float(slope.value * (slope.layers - 1))


def effect(diagnosis: Diagnosis) -> Effect:
    """The measured effect: gap and slope of a diagnosis."""
    return Effect(diagnosis.gap, diagnosis.slope)


def kept(before: Axes, after: Axes) -> bool:
    """The rule: the verdict is no worse, what was sick or at risk improves, and what was healthy stays healthy.

    If both axes were sick, both must improve. An axis improves by a milder finding, or by the same with a smaller
    number: the gap forward, the growth of gradients backward.
    """
    if after.verdict.rank > before.verdict.rank:
        return False
    return all(
        new.severity is Verdict.HEALTHY if old.severity is Verdict.HEALTHY else new.improves_on(old)
        for old, new in ((before.forward, after.forward), (before.backward, after.backward))
    )


def _severity(diagnosis: Diagnosis | DiagnosisDocument, forward: bool) -> Verdict:
    found = [
        finding.severity
        for finding in diagnosis.findings
        if finding.state is State.FOUND and finding.symptom in _OF_SIGNALS
        if (finding.symptom is Symptom.COLLAPSE or finding.check in _FORWARD_CHECKS) is forward
    ]
    return max(found, key=lambda verdict: verdict.rank, default=Verdict.HEALTHY)


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None or not math.isfinite(value) else float(value)


@dataclass(frozen=True, repr=False)
class Comparison(Viewed):
    """Two diagnoses side by side, made by `compare`.

    Attributes:
        before: The first diagnosis.
        after: The second diagnosis.
    """

    before: Diagnosis
    after: Diagnosis

    def as_document(self, details: bool = True) -> ComparisonDocument:
        """Return both diagnoses whole, and what changed between them."""
        return compared(self.before.as_document(details), self.after.as_document(details))

    @cached_property
    def _changes(self) -> ComparisonDocument:
        return self.as_document(details=False)

    @property
    def improved(self) -> bool:
        """Whether an unhealthy network improved, by the same rule by which `fix` keeps a change."""
        return self._changes.improved

    @property
    def summary(self) -> str:
        """One sentence: the verdicts, and which findings vanished or appeared."""
        return self._changes.summary

    @property
    def numbers(self) -> tuple[NumberPair, ...]:
        """The main numbers of both networks."""
        return self._changes.numbers

    @property
    def vanished(self) -> tuple[Finding, ...]:
        """Findings of the first diagnosis that the second does not have."""
        return _found_only_in(self.before, self.after)

    @property
    def appeared(self) -> tuple[Finding, ...]:
        """Findings of the second diagnosis that the first does not have."""
        return _found_only_in(self.after, self.before)

    def markdown(self) -> str:
        """Markdown for a pull request: the verdicts, a table of main numbers, what vanished and appeared."""
        return comparison_markdown(self._changes)


def compare(before: Diagnosis, after: Diagnosis) -> Comparison:
    """Compare two diagnoses, of one network before and after a change or of two networks.

    Args:
        before: The first diagnosis.
        after: The second diagnosis.

    Returns:
        The comparison; printed, it is a table.

    Raises:
        ValueError: If an argument is not a diagnosis.

    Example:
        >>> relu, linear = (orthoscope.models.MLP(depth=50, width=32, activation=a) for a in ("relu", "identity"))
        >>> batch = torch.randn(32, 32)
        >>> comparison = orthoscope.compare(orthoscope.diagnose(relu, batch), orthoscope.diagnose(linear, batch))
    """
    for diagnosis in (before, after):
        if not isinstance(diagnosis, Diagnosis):
            raise ValueError(f"two diagnoses are compared, got {type(diagnosis).__name__}: call diagnose first")
    return Comparison(before, after)


def compared(before: DiagnosisDocument, after: DiagnosisDocument) -> ComparisonDocument:
    """Write down what changed between two diagnoses, whether they were just made or are read from files."""
    gone, new = _found_only_in(before, after), _found_only_in(after, before)
    summary = f"{after.verdict} as before" if before.verdict is after.verdict else f"{before.verdict} → {after.verdict}"
    for what, found in (("no longer found", gone), ("newly found", new)):
        summary += f"; {what}: {', '.join(finding.check for finding in found)}" if found else ""
    numbers = [
        ("orthogonality gap", before.gap, after.gap, "0 orthogonal, 1 one direction"),
        ("gradient growth per weight layer", before.slope.value, after.slope.value, "e-folds"),
        ("gradient growth from output to input", _growth(before), _growth(after), "e-folds"),
        ("parameters", before.parameters, after.parameters, "count"),
    ]
    return ComparisonDocument(
        name=after.name,
        verdict=Verdicts(before=before.verdict, after=after.verdict),
        improved=before.verdict is not Verdict.HEALTHY and kept(axes(before), axes(after)),
        summary=summary,
        numbers=tuple(NumberPair(name=name, before=one, after=other, unit=unit) for name, one, other, unit in numbers),
        vanished=tuple(copied(ChangedFinding, finding) for finding in gone),
        appeared=tuple(copied(ChangedFinding, finding) for finding in new),
        layers=_paired(before.layers, after.layers),
        before=before,
        after=after,
        environment=environment(),
    )


def _found_only_in(one: Diagnosis | DiagnosisDocument, other: Diagnosis | DiagnosisDocument) -> tuple[Any, ...]:
    elsewhere = {finding.check for finding in other.findings if finding.state is State.FOUND}
    return tuple(f for f in one.findings if f.state is State.FOUND and f.check not in elsewhere)


def _paired(before: Sequence[Layer], after: Sequence[Layer]) -> tuple[LayerPair, ...]:
    """Rows of the same module call side by side, in the order of the network as it is now; what is gone comes last."""
    old = {(layer.name, layer.call): (index, layer) for index, layer in enumerate(before)}
    new = {(layer.name, layer.call): (index, layer) for index, layer in enumerate(after)}
    latest = old | new
    return tuple(
        copied(
            LayerPair,
            latest[key][1],
            kind=KindPair(
                before=old[key][1].kind if key in old else None, after=new[key][1].kind if key in new else None
            ),
            before=old[key][0] if key in old else None,
            after=new[key][0] if key in new else None,
        )
        for key in (new | old)
    )


def compared_files(before: Path, after: Path) -> list[ComparisonDocument]:
    """Return the comparisons of the one network in each file, or of those whose names are in both.

    Raises:
        ValueError: If a file holds no diagnoses, no name is in both, or a name is in one of them twice.
    """
    old, new = saved_documents(before), saved_documents(after)
    if len(old) == len(new) == 1:
        return [compared(old[0], new[0])]
    named = {document.name: document for document in old}
    if len(named) < len(old) or len({document.name for document in new}) < len(new):
        raise ValueError(
            "networks are matched by name, and one name is there twice: compare files with one network each"
        )
    pairs = [(named[document.name], document) for document in new if document.name in named]
    if not pairs:
        raise ValueError(f"{str(before)!r} and {str(after)!r} have no network of the same name: save them one by one")
    return [compared(*pair) for pair in pairs]


def saved_documents(path: Path) -> tuple[DiagnosisDocument, ...]:
    """Return the documents of the diagnoses in a file that `diagnose --json` or `.save` wrote.

    Raises:
        ValueError: If there is no such file, or it holds something else; one sentence says what.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {str(path)!r}: save one with orthoscope diagnose --json") from None
    except (ValueError, OSError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} is no saved diagnosis: {error}") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    try:
        if str(schema).startswith("orthoscope.report/"):
            return from_data(ReportDocument, content).diagnoses
        return (from_data(DiagnosisDocument, content),)
    except ValueError as error:
        raise ValueError(f"cannot read {str(path)!r}: {error}") from None
