"""Checks of the numbers at both ends: the scale of the batch, and the loss beside that of guessing."""

import math

from orthoscope.diagnosis.checks import CheckValue, NotChecked
from orthoscope.probe import Recording
from orthoscope.probe.initial_loss import InitialLoss

NO_LOSS = "no loss was given, or its targets are split over processes"
_NO_CLASSES = "the loss is no cross entropy, whose size could be judged"
_NORMALIZED = "normalization removes the scale of the batch"
_NOT_REAL = "the batch is not of real numbers"
NOT_APPLICABLE = (NO_LOSS, _NO_CLASSES, _NORMALIZED, _NOT_REAL)
# Root mean squares of a batch between which no scale is remarked: one-hot inputs are small, pixels up to 255 are large.
_SMALLEST, _LARGEST = 1e-3, 20.0


def _loss(recording: Recording) -> InitialLoss:
    if recording.initial_loss is None:
        raise NotChecked(NO_LOSS)
    return recording.initial_loss


def finite_loss(recording: Recording) -> CheckValue:
    """1 if the loss is nan or infinite, 0 if not."""
    return CheckValue(float(not math.isfinite(_loss(recording).value)), lambda limit: _last(recording))


def loss_above_guessing(recording: Recording) -> CheckValue:
    """How many times the loss of guessing the first loss is, for cross entropy, whose size has a meaning."""
    loss = _loss(recording)
    if not loss.classifies and not loss.reason:
        raise NotChecked(_NO_CLASSES)
    if loss.factor is None:
        raise NotChecked(loss.reason or "the loss or that of guessing is not a positive number")
    words = {"loss": f"{loss.value:.3g}", "guessing": f"{loss.guessing:.3g}"}
    return CheckValue(loss.factor, lambda limit: _last(recording), words=words)


def unsuitable_outputs(recording: Recording) -> CheckValue:
    """1 if the loss applies a softmax or a logarithm that the outputs already have, or lack; 0 if not."""
    loss = _loss(recording)
    if loss.reason:
        raise NotChecked(loss.reason)
    last = _last(recording)
    return CheckValue(float(bool(loss.misuse)), lambda limit: last, words={"misuse": loss.misuse}, cause=last)


def input_scale(recording: Recording) -> CheckValue:
    """E-folds by which the root mean square of a floating-point batch is beyond 0.001 to 20.

    Not of a network that normalizes: the scale of its input is lost in the first normalization.
    """
    if not recording.input.kind.startswith(("float", "bfloat")):
        raise NotChecked(_NOT_REAL)
    if _normalizes(recording):
        raise NotChecked(_NORMALIZED)
    size = recording.input.rms
    words = {"size": f"{size:.3g}"}
    return CheckValue(_beyond(size), lambda limit: "input", words=words, cause="input")


def is_normalized_away(recording: Recording) -> bool:
    """Whether a batch of real numbers has a scale beyond 0.001 to 20 that a normalization removes."""
    real = recording.input.kind.startswith(("float", "bfloat"))
    return real and _beyond(recording.input.rms) > 0 and _normalizes(recording)


def _beyond(size: float) -> float:
    # A batch of zeros, nan or infinity has no scale: other checks find it.
    if not 0 < size < math.inf:
        return 0.0
    return max(0.0, math.log(size / _LARGEST), math.log(_SMALLEST / size))


def _normalizes(recording: Recording) -> bool:
    """Whether there is a normalization, by the name of its class: every library has its own."""
    return any("norm" in layer.kind.lower() for layer in recording.layers)


def _last(recording: Recording) -> str | None:
    return recording.layers[-1].name if recording.layers else None
