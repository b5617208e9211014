"""Whether a learning rate is too high: the loss beside that of guessing and beside its best, and the size of updates.

No limit here is of one network: the loss is measured in units of what the training has gained over guessing, and an
update in units of the weight that it changes.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

WINDOW = 8  # steps of a median
LOST = 0.5  # share of the gain over guessing whose loss, for a window, is a rise
ABOVE = 1.1  # times the loss of guessing, from where on a loss is worse than guessing
LARGE_UPDATE = 0.1  # ‖ΔW‖/‖W‖ of half of the matrices, beyond which a loss above guessing is blamed on the rate at once
REPLACED = 1.0  # the same, from where on the step replaces the weights, whatever the loss does
TYPICAL_UPDATE = 0.01  # to which a suggested rate brings it
MOST_LOWERED, LEAST_LOWERED = 1e-3, 0.3  # factors of a suggestion


@dataclass(frozen=True)
class Alarm:
    """Why a learning rate is too high.

    Attributes:
        sentence: What was seen.
        factor: By which to multiply the rate.
        weight: The parameter with the largest update; None if none was measured.
    """

    sentence: str
    factor: float
    weight: str | None


class LossJudge:
    """Follows the losses and update sizes of a training, step by step, and says once that the rate is too high."""

    def __init__(self) -> None:
        self.classes: int | None = None  # of the cross-entropy, 0 if the loss is made of something else
        self.best = math.inf  # least median over a window
        self._first: list[float] = []
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._sizes: deque[float] = deque(maxlen=WINDOW)  # medians over matrices
        self._weight: str | None = None

    @property
    def guessing(self) -> float | None:
        """The loss of guessing: log of the number of classes, else the median of the first losses; None before them."""
        if self.classes:
            return math.log(self.classes)
        return median(self._first) if self._first else None

    @property
    def falls(self) -> bool:
        """Whether the training makes progress: the loss is below guessing, and near its best."""
        guessing = self.guessing
        if guessing is None or not self._recent:
            return False
        now = median(self._recent)
        return now < guessing and now <= self.best + LOST * (guessing - self.best)

    def add_loss(self, step: int, loss: float) -> Alarm | None:
        """Judge the loss of a step."""
        if len(self._first) < WINDOW // 2:
            self._first.append(loss)
        self._recent.append(loss)
        alarm = self._alarm(loss)
        if len(self._recent) == WINDOW:
            self.best = min(self.best, median(self._recent))
        return alarm

    def add_sizes(self, step: int, sizes: Mapping[str, float]) -> Alarm | None:
        """Judge the relative sizes of the update of every matrix."""
        if not sizes:
            return None
        self._sizes.append(median(sizes.values()))
        self._weight = max(sizes, key=lambda name: sizes[name])
        return None

    def _alarm(self, loss: float) -> Alarm | None:
        return None
