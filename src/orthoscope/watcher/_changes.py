"""What changed in a network since the first healthy snapshot of its training: limits for trained networks.

The limits of the verdict are for networks at initialization. A network that trains well leaves them: a classifier
collapses its samples to as many directions as there are classes, and gradients grow moderately. So a later snapshot is
compared with an earlier one of the same training, and a change counts only while the loss does not fall; outputs that
are not finite, and layers that have died, count always.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from orthoscope.diagnosis.diagnosis import Diagnosis
from orthoscope.findings import Status, Verdict
from orthoscope.probe import Layer

RANK_FALL = 4.0  # factor by which the effective rank may fall
GROWTH_CHANGE = 3.0  # e-folds by which the gradient growth over all weight layers may change
SICK_GROWTH_CHANGE = 9.0
COLLAPSED = 1.5  # effective rank at which nearly one direction is left
_MOST_NAMED = 3


@dataclass(frozen=True)
class Change:
    """One thing that became worse.

    Attributes:
        verdict: AT RISK, or SICK.
        sentence: What changed, with both numbers.
        layer: Where; None if it is of the whole network.
        value: The number now.
    """

    verdict: Verdict
    sentence: str
    layer: str | None = None
    value: float | None = None


@dataclass(frozen=True)
class Judged:
    """What is said of one snapshot.

    Attributes:
        verdict: Of the diagnosis, until one is healthy; then by what changed since the first healthy one.
        summary: One sentence.
        change: The worst change; None if nothing became worse, or if the verdict is that of the diagnosis.
        worse: Whether the verdict is worse than ever before.
    """

    verdict: Verdict
    summary: str
    change: Change | None = None
    worse: bool = False


class SnapshotJudge:
    """Judges the snapshots of one training, in order."""

    def __init__(self) -> None:
        self.reference: Diagnosis | None = None  # the first healthy one
        self._worst = Verdict.HEALTHY

    def judge(self, diagnosis: Diagnosis, loss_falls: bool) -> Judged:
        """Judge the next snapshot."""
        judged = self._judged(diagnosis, loss_falls)
        if judged.verdict is Verdict.HEALTHY:
            self.reference = self.reference or diagnosis
        worse = judged.verdict.rank > self._worst.rank
        self._worst = judged.verdict if worse else self._worst
        return replace(judged, worse=worse)

    def _judged(self, diagnosis: Diagnosis, loss_falls: bool) -> Judged:
        if self.reference is None:
            return Judged(diagnosis.verdict, diagnosis.summary)
        found = changes(diagnosis, self.reference, loss_falls)
        if not found:
            return Judged(Verdict.HEALTHY, "nothing became worse since the first healthy snapshot")
        return Judged(found[0].verdict, "; ".join(change.sentence for change in found), found[0])


def changes(now: Diagnosis, reference: Diagnosis, loss_falls: bool) -> list[Change]:
    """Return what became worse since `reference`, the worst first.

    Args:
        now: The snapshot to be judged.
        reference: The first healthy snapshot of the same training.
        loss_falls: Whether the training makes progress: then a lower rank or another gradient growth is no failure.
    """
    before = {(layer.name, layer.call): layer for layer in reference.layers}
    pairs = [(layer, before[layer.name, layer.call]) for layer in now.layers if (layer.name, layer.call) in before]
    found = [*_broken(pairs), *_died(pairs)]
    if not loss_falls:
        found += [*_fallen_rank(pairs), *_changed_growth(now, reference)]
    return sorted(found, key=lambda change: -change.verdict.rank)


def _broken(pairs: list[tuple[Layer, Layer]]) -> Iterator[Change]:
    broken = [new.name for new, old in pairs if new.status is Status.NOT_FINITE is not old.status]
    if broken:
        yield Change(Verdict.SICK, f"the output of `{broken[0]}` is not finite any more", broken[0])


def _died(pairs: list[tuple[Layer, Layer]]) -> Iterator[Change]:
    died = [new.name for new, old in pairs if new.status is Status.DEAD and old.status is Status.MEASURED]
    if died:
        named = ", ".join(f"`{name}`" for name in died[:_MOST_NAMED]) + (
            " and others" if len(died) > _MOST_NAMED else ""
        )
        yield Change(Verdict.AT_RISK, f"{len(died)} layers died: the output of {named} became exactly zero", died[0])


def _fallen_rank(pairs: list[tuple[Layer, Layer]]) -> Iterator[Change]:
    # Where few directions fit, one of them is a large share.
    wide = [(new, old) for new, old in pairs if math.isfinite(new.effective_rank) and old.effective_rank > RANK_FALL]
    fallen = [(new, old) for new, old in wide if new.effective_rank * RANK_FALL < old.effective_rank]
    if fallen:
        new, old = min(fallen, key=lambda pair: pair[0].effective_rank / pair[1].effective_rank)
        verdict = Verdict.SICK if new.effective_rank < COLLAPSED else Verdict.AT_RISK
        yield Change(
            verdict,
            f"the effective rank of `{new.name}` fell from {old.effective_rank:.1f} to {new.effective_rank:.1f} "
            f"(limit: by a factor {RANK_FALL:g}) while the loss does not fall",
            new.name,
            new.effective_rank,
        )


def _changed_growth(now: Diagnosis, reference: Diagnosis) -> Iterator[Change]:
    new, old = _growth(now), _growth(reference)
    change = abs(new - old)
    if change > GROWTH_CHANGE:
        yield Change(
            Verdict.SICK if change > SICK_GROWTH_CHANGE else Verdict.AT_RISK,
            f"the gradient growth from output to input changed from e^{old:.1f} to e^{new:.1f} "
            f"(limit: by e^{GROWTH_CHANGE:g}) while the loss does not fall",
            value=new,
        )


def _growth(diagnosis: Diagnosis) -> float:
    """E-folds over all weight layers; nan if it was not measured, which no limit is compared with."""
    layers = 0 if diagnosis.gradients is None else len(diagnosis.gradients.layers)
    return diagnosis.slope * (layers - 1) if layers > 1 else math.nan
