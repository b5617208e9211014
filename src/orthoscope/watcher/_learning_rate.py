"""Whether a learning rate is too high: the loss beside that of guessing and beside its best, and the size of updates.

No limit here is of one network: the loss is measured in units of what the training has gained over guessing, and an
update in units of the weight that it changes.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, median_low

WINDOW = 8  # steps of a median, and for which a large update is remembered
LOST = 0.5  # share of the gain over guessing whose loss, for a window, is a rise
GAIN = 0.2  # least gain, as a share of the loss of guessing, of which a part can be lost
ABOVE = 1.1  # times the loss of guessing or of the first steps, from where on a loss is above it
NOISE = 3.0  # standard deviations of the loss from step to step by which a median must have risen
MEMORY = 64  # steps from whose differences the noise is estimated
UNKNOWN = 2.0  # in place of ABOVE, until the noise is known, if guessing is only known from the first losses
LARGE_UPDATE = 0.1  # ‖ΔW‖/‖W‖ of the median matrix: too large if the loss is above guessing
LARGEST_UPDATE = 0.3  # the same for the matrix with the largest one
TYPICAL_UPDATE = 0.01  # ‖ΔW‖/‖W‖ to which a suggested rate brings the median matrix, and ten times that the largest
MOST_LOWERED, LEAST_LOWERED = 1e-3, 0.3  # factors of a suggestion


@dataclass(frozen=True)
class Alarm:
    """Why a learning rate is too high.

    Attributes:
        sentence: What was seen.
        factor: By which to multiply the rate.
        weight: The parameter with the largest update; None if none was measured.
        lasts: Whether it has lasted for a window, so that it is no spike that recovers at once.
    """

    sentence: str
    factor: float
    weight: str | None
    lasts: bool


class LossJudge:
    """Follows the losses and update sizes of a training, step by step, and says when the learning rate is too high."""

    def __init__(self) -> None:
        self.classes: int | None = None  # of the cross-entropy, 0 if the loss is made of something else
        self.best = math.inf  # least median over a window
        self._first: list[float] = []
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._differences: deque[float] = deque(maxlen=MEMORY)
        self._sizes: deque[_Sizes] = deque(maxlen=WINDOW)

    @property
    def guessing(self) -> float | None:
        """The loss of guessing: log of the number of classes, else the median of the first losses; None before them."""
        if self.classes:
            return math.log(self.classes)
        return median_low(self._first) if self._first else None  # low: a loss that explodes may be among them

    @property
    def noise(self) -> float:
        """Standard deviation of the loss from step to step, before the last window; nan while there are too few steps.

        The median of |Lₜ − Lₜ₋₁| of normal numbers is 0.954 σ.
        """
        before = list(self._differences)[:-WINDOW]
        return median(before) / 0.954 if len(before) >= WINDOW else math.nan

    @property
    def falls(self) -> bool:
        """Whether the training makes progress: the loss is below guessing, and near its best."""
        guessing = self.guessing
        if guessing is None or not self._recent:
            return False
        now = median(self._recent)
        return now < guessing and now <= self.best + LOST * (guessing - self.best)

    def add_loss(self, loss: float) -> Alarm | None:
        """Judge the loss of the next step."""
        if len(self._first) < WINDOW // 2:
            self._first.append(loss)
        if self._recent:
            self._differences.append(abs(loss - self._recent[-1]))
        self._recent.append(loss)
        if len(self._recent) == WINDOW:
            self.best = min(self.best, median(self._recent))
        return self._risen() or self._above(loss)

    def add_sizes(self, sizes: Mapping[str, float]) -> None:
        """Remember the relative sizes of the last update, by the names of the matrices.

        Alone they prove nothing: a network with batch norm may train with updates larger than its weights.
        """
        if sizes:
            largest = max(sizes, key=lambda name: sizes[name])
            self._sizes.append(_Sizes(median(sizes.values()), sizes[largest], largest))

    def _above(self, loss: float) -> Alarm | None:
        """The loss is above that of guessing, and an update just before was large."""
        guessing = self.guessing
        if guessing is None or not self._sizes:
            return None
        large = max(self._sizes, key=lambda sizes: max(sizes.median / LARGE_UPDATE, sizes.largest / LARGEST_UPDATE))
        if loss <= self._limit(guessing) or (large.median <= LARGE_UPDATE and large.largest <= LARGEST_UPDATE):
            return None
        seen = f"the loss is {loss:.4g}, above that of guessing ({guessing:.4g}), after updates of {large.words}"
        return Alarm(seen, self._factor(large), large.name, lasts=False)

    def _limit(self, guessing: float) -> float:
        """The loss from which on it is above guessing; of a loss whose guessing is not known, beyond its noise."""
        limit = ABOVE * max(guessing, self._first[0])
        if self.classes:
            return limit
        noise = self.noise
        early = UNKNOWN * max(guessing, self._first[0])
        return early if math.isnan(noise) else max(limit, guessing + NOISE * noise)

    def _risen(self) -> Alarm | None:
        """For half a window, the loss is above guessing, or has lost half of what it had gained over it."""
        guessing = self.guessing
        if guessing is None or len(self._recent) < WINDOW:
            return None
        now, gain = median(self._recent), guessing - self.best
        limit = self.best + LOST * gain if gain >= GAIN * guessing else ABOVE * max(guessing, self._first[0])
        if now <= limit or now <= self.best or now - self.best <= NOISE * self.noise:
            return None
        if not self.classes and math.isnan(self.noise):
            return None
        large = max(self._sizes, key=lambda sizes: sizes.median, default=_Sizes(math.nan, math.nan, None))
        seen = f"the loss rose from {self.best:.4g} to {now:.4g} (medians of {WINDOW} steps; guessing: {guessing:.4g})"
        return Alarm(f"{seen}, with updates of {large.words}", self._factor(large), large.name, lasts=True)

    def _factor(self, sizes: "_Sizes") -> float:
        """Brings the median update to its typical size and the largest to ten times that, within bounds."""
        excess = max(sizes.median, sizes.largest / 10) / TYPICAL_UPDATE
        return min(LEAST_LOWERED, max(MOST_LOWERED, 1 / excess)) if excess > 0 else LEAST_LOWERED


@dataclass(frozen=True)
class _Sizes:
    """The relative sizes of one update: of the median matrix and of the one that changed most."""

    median: float
    largest: float
    name: str | None

    @property
    def words(self) -> str:
        return f"{self.median:.2g} of the weights' size, and {self.largest:.2g} in `{self.name}`"
