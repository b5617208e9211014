"""The module to change: from where a symptom shows back to the nearest weight layer that explains it.

A dead ReLU has nothing that could be changed; the linear layer before it, whose bias is -10, does.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor, nn

from orthoscope.diagnosis.rules import in_words
from orthoscope.diagnosis.training_checks import is_closed
from orthoscope.findings import Finding, State, Symptom
from orthoscope.linalg import weight_matrix
from orthoscope.linalg.matrices import is_sharded
from orthoscope.probe import Layer, Recording
from orthoscope.probe.hooks import observable_modules

_NEAR = 3  # weight layers that are looked at, back from where a symptom shows
_BIAS = 3.0  # a bias this many times the product outweighs it
_GAIN = 8.0  # factor between the gain of a layer and what is usual
_FEWEST = 4  # directions of a matrix of which it can lose all but one
_ONE_DIRECTION = 1.05  # stable rank of a matrix of rank one, with rounding
_SATURATED = ("output varies", "live layers", "live branches", "gradient arrives", "sample angles", "sample rank")


def with_causes(findings: Sequence[Finding], recording: Recording, model: nn.Module) -> tuple[Finding, ...]:
    """Return the findings, with the module to change named in those where a single one explains what was found."""
    modules = dict(observable_modules(model))
    suspects = [
        Suspect(layer, modules[layer.name], recording)
        for layer in recording.layers
        if layer.depth is not None and layer.name in modules
    ]
    explained: list[Finding] = []
    for finding in findings:
        said = {one.cause for one in explained}
        explained.append(_explained(finding, recording, suspects, said))
    return tuple(explained)


def _explained(
    finding: Finding, recording: Recording, suspects: Sequence["Suspect"], said: Collection[str | None]
) -> Finding:
    """The finding with its cause, and with a sentence about it, unless one was said before."""
    if finding.state is not State.FOUND:
        return finding
    if finding.symptom is Symptom.DEGENERATE_INPUT:
        return replace(finding, cause="input")
    if finding.cause is not None:
        return finding
    found = _culprit(finding, recording, suspects)
    if found is None:
        return finding
    cause, why = found
    known = cause in said or (cause == finding.layer and not why)
    words = "" if known else f"; the cause is {in_words(cause)}{f', {why}' if why else ''}"
    return replace(finding, cause=cause, reason=finding.reason + words)


def _culprit(finding: Finding, recording: Recording, suspects: Sequence["Suspect"]) -> tuple[str, str] | None:
    """The module to change and what is wrong with it, in words; empty words where it is only the nearest."""
    broken = next((one for one in suspects if one.is_broken), None) if finding.symptom is Symptom.EXPLODE else None
    if broken is not None:
        return broken.layer.name, "whose parameters are nan or infinite"
    before = list(_walk_back(finding.layer, recording, suspects))
    if finding.check in _SATURATED:
        for suspect in before[:_NEAR]:
            why = suspect.explanation
            if why:
                return suspect.layer.name, why
    outlier = _outlier(suspects)
    if outlier is not None and finding.symptom in (Symptom.EXPLODE, Symptom.VANISH, Symptom.SCALE, Symptom.COLLAPSE):
        return outlier.layer.name, f"whose gain of {outlier.gain:.2g} is far from that of the others"
    if finding.check in ("live layers", "live branches", "initial loss") and before:
        return before[0].layer.name, ""
    return None


def _walk_back(name: str | None, recording: Recording, suspects: Sequence["Suspect"]) -> Iterator["Suspect"]:
    """The weight layers that were called at or before the first call of a module, the nearest first."""
    index = next((layer.index for layer in recording.layers if layer.name == name), None)
    if index is not None:
        yield from (one for one in reversed(suspects) if one.layer.index <= index)


def _outlier(suspects: Sequence["Suspect"]) -> "Suspect | None":
    """The layer whose gain is far from the median of the others', if it is the only one."""
    known = [one for one in suspects if one.gain > 0 and math.isfinite(one.gain)]
    if len(known) < 2:
        return known[0] if known and abs(math.log(known[0].gain)) > math.log(_GAIN) else None
    logs = [math.log(one.gain) for one in known]
    usual = sorted(logs)[(len(logs) - 1) // 2] if len(logs) > 2 else 0.0
    far = {one.layer.name: one for one, log in zip(known, logs, strict=True) if abs(log - usual) > math.log(_GAIN)}
    return next(iter(far.values())) if len(far) == 1 else None


@dataclass(frozen=True, eq=False)
class Suspect:
    """One call of a weight layer, and what its parameters say; computed when it is asked for."""

    layer: Layer
    module: nn.Module
    recording: Recording

    @cached_property
    def _matrix(self) -> Tensor | None:
        weight = getattr(self.module, "weight", None)
        if not isinstance(weight, Tensor) or is_sharded(weight):
            return None
        usable = weight.ndim >= 2 and weight.is_floating_point() and weight.numel() > 0
        return weight_matrix(weight.detach()) if usable else None

    @cached_property
    def is_broken(self) -> bool:
        """Whether a parameter of the layer is nan or infinite."""
        rows = self.recording.parameter_table.of(self.layer.name)
        return self._matrix is not None and any(not math.isfinite(row.weight_norm) for row in rows)

    @cached_property
    def gain(self) -> float:
        r"""$\mathrm{rms}(W)\sqrt{\text{fan in}}$: by how much the layer scales random inputs; nan if unknown."""
        matrix = self._matrix
        return math.nan if matrix is None else float(matrix.float().square().mean().sqrt()) * matrix.shape[1] ** 0.5

    @cached_property
    def explanation(self) -> str:
        """What is wrong with the parameters, for an output that is constant, dead or saturated; empty if nothing is."""
        matrix = self._matrix
        if is_closed(self.layer, self.recording):
            return "whose weight is zero and gets no step"
        if matrix is None:
            return ""
        if self._bias_outweighs:
            return "whose bias outweighs the product with its weight"
        if min(matrix.shape) >= _FEWEST and _stable_rank(matrix) < _ONE_DIRECTION:
            return "whose weight has rank one"
        return f"whose gain is {self.gain:.2g}" if not 1 / _GAIN < self.gain < _GAIN else ""

    @property
    def _bias_outweighs(self) -> bool:
        """Whether the bias is larger than the rest of the output."""
        bias = getattr(self.module, "bias", None)
        if not isinstance(bias, Tensor) or is_sharded(bias) or not bias.numel():
            return False
        size = float(bias.detach().float().square().mean().sqrt())
        product = max(self.layer.rms**2 - size**2, 0.0) ** 0.5
        return size > 1 and size > _BIAS * product


def _stable_rank(matrix: Tensor) -> float:
    """Squared Frobenius norm over squared spectral norm, the latter by a few products with a vector."""
    wide = matrix.float()
    vector = wide[wide.square().sum(-1).argmax()]
    for _ in range(4):
        vector = wide.mT @ (wide @ vector)
        vector = vector / torch.linalg.vector_norm(vector)
    top = float(torch.linalg.vector_norm(wide @ vector)) ** 2
    return float(wide.square().sum()) / top if top > 0 else math.inf
