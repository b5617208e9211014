"""The loss of the pass beside that of guessing, and whether the loss fits the outputs that it is given."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

_SAME = 1e-4  # relative difference of two losses that are the same
_SUMS_TO_ONE = 1e-3  # difference of the sum of probabilities from 1, also in half precision
_LARGEST = 1 << 26  # numbers of an output; a constant output of more is not made
_CLASSIFICATION = ("cross entropy", "binary cross entropy")


@dataclass(frozen=True)
class InitialLoss:
    """The loss before training.

    Attributes:
        value: Of the batch.
        kind: "cross entropy", "binary cross entropy", "mean squared error", or empty if it is none of them.
        guessing: Of an output that does not depend on the input: equal logits for cross entropy, the mean of the
            targets for a mean squared error, else zeros; None if it is not known.
        best_constant: Of the best constant output on the targets of this batch; None if it is not known.
        misuse: What is wrong with the outputs for this loss, in words; empty if nothing is.
        reason: Why the loss of guessing is not known; empty if it is.
    """

    value: float
    kind: str = ""
    guessing: float | None = None
    best_constant: float | None = None
    misuse: str = ""
    reason: str = ""

    @property
    def factor(self) -> float | None:
        """How many times that of guessing the loss is; None if that is not known, or not positive."""
        positive = self.guessing is not None and self.guessing > 0 and math.isfinite(self.value)
        return self.value / self.guessing if positive and self.guessing else None

    @property
    def classifies(self) -> bool:
        """Whether it is a cross entropy, whose size has a meaning."""
        return self.kind in _CLASSIFICATION


def initial_loss(loss: Callable[..., Tensor], output: Any, target: Any, value: float) -> InitialLoss:
    """Compare a loss with that of constant outputs, by calling it on them; nothing is differentiated.

    Args:
        loss: `loss(output)` or `loss(output, target)`.
        output: What the model returned.
        target: The target of the batch; None if the loss takes none.
        value: The loss of the output.
    """
    if not isinstance(output, Tensor) or not output.is_floating_point() or output.ndim == 0:
        return InitialLoss(value, reason="the output is not one tensor of real numbers")
    if output.numel() > _LARGEST:
        return InitialLoss(value, reason=f"the output has more than {_LARGEST:,} numbers")

    def of(prediction: Tensor) -> float:
        return float(loss(prediction) if target is None else loss(prediction, target))

    output = output.detach()
    target = target.to(output.device) if isinstance(target, Tensor) else target
    with torch.no_grad():
        try:
            return _compared(of, output, target if isinstance(target, Tensor) else None, value)
        except Exception as error:  # the user's loss may raise anything on outputs that no network gives
            return InitialLoss(value, reason=f"the loss fails on a constant output ({type(error).__name__})")


def _compared(of: Callable[[Tensor], float], output: Tensor, target: Tensor | None, value: float) -> InitialLoss:
    classes = _class_dimension(output)
    kind, best = _known_loss(output, target, value)
    zeros = torch.zeros_like(output)
    guessing = of(zeros)
    if not kind and any(_close(guessing, math.log(output.shape[one])) for one in _class_dimensions(output)):
        # Of tokens, or with targets of its own: equal logits give the log of the number of classes.
        kind = "cross entropy"
    if kind == "mean squared error":
        guessing = best if best is not None else guessing
    elif classes is not None and _is_log_probability(output, classes) and not _close(guessing, value):
        constant = -math.log(output.shape[classes])
        guessing = of(zeros + constant)
    misuse = "" if classes is None else _misuse(of, output, classes, value)
    if not misuse and kind == "binary cross entropy" and _inside_unit_interval(output):
        misuse = "all outputs are between 0 and 1, as after a sigmoid, and the loss applies another one: give it logits"
    known = math.isfinite(guessing)
    return InitialLoss(
        value, kind, guessing if known else None, best, misuse, "" if known else "the loss of guessing is not finite"
    )


def _known_loss(output: Tensor, target: Tensor | None, value: float) -> tuple[str, float | None]:
    """The kind of a loss, recognized by its value, and that of the best constant output by closed form."""
    if target is None:
        return "", None
    if not target.is_floating_point():
        same = output.ndim >= 2 and target.shape == (output.shape[0], *output.shape[2:])
        if same and _close(float(functional.cross_entropy(output.float(), target.long())), value):
            counts = torch.bincount(target[target >= 0].flatten().long()).double()
            return "cross entropy", _entropy(counts / counts.sum())
        return "", None
    if target.shape != output.shape:
        return "", None
    if _close(float(functional.mse_loss(output, target.to(output.dtype))), value):
        return "mean squared error", float(target.double().var(0, correction=0).mean())
    binary = bool(((target >= 0) & (target <= 1)).all())
    if binary and _close(float(functional.binary_cross_entropy_with_logits(output, target.to(output.dtype))), value):
        share = target.double().mean(0)
        return "binary cross entropy", float(_entropy_terms(share).mean() + _entropy_terms(1 - share).mean())
    return "", None


def _entropy_terms(shares: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    return -torch.special.xlogy(shares, shares)


def _entropy(shares: Float[Tensor, "classes"]) -> float:
    return float(_entropy_terms(shares).sum())


def _class_dimension(output: Tensor) -> int | None:
    """The dimension along which outputs are (log-)probabilities; else that which counts classes, for two or more."""
    candidates = _class_dimensions(output)
    for dimension in candidates:
        if _is_probability(output, dimension) or _is_log_probability(output, dimension):
            return dimension
    return next(iter(candidates), None)


def _class_dimensions(output: Tensor) -> list[int]:
    """The dimensions that may count classes: the second, as of images, and the last, as of tokens."""
    return [one for one in dict.fromkeys((1, output.ndim - 1)) if 0 < one < output.ndim and output.shape[one] >= 2]


def _is_probability(output: Tensor, dimension: int) -> bool:
    several = output.shape[dimension] >= 2
    return several and bool((output >= 0).all()) and bool(((output.sum(dimension) - 1).abs() < _SUMS_TO_ONE).all())


def _is_log_probability(output: Tensor, dimension: int) -> bool:
    several = output.shape[dimension] >= 2
    return several and bool((output <= 0).all()) and bool((output.logsumexp(dimension).abs() < _SUMS_TO_ONE).all())


def _inside_unit_interval(output: Tensor) -> bool:
    low, high = output.aminmax()
    return float(low) >= 0 and float(high) <= 1


def _misuse(of: Callable[[Tensor], float], output: Tensor, classes: int, value: float) -> str:
    """What is wrong if outputs are probabilities.

    A softmax ignores a constant that is added to all outputs of a sample, so a loss that ignores it applies one. A loss
    that falls by just that constant takes its inputs for log-probabilities.
    """
    if not _is_probability(output, classes):
        return ""
    shifted = of(output + 1)
    if _close(shifted, value):
        return "the outputs are probabilities, and the loss applies a softmax to them again: give it logits"
    if _close(shifted, value - 1):
        return "the outputs are probabilities, and the loss takes them for log-probabilities: use log_softmax"
    return ""


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)
