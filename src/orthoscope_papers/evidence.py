"""A number of a paper beside ours: what the table at the end of `orthoscope reproduce` is made of."""

import math
import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple

from scipy.special import stdtrit

Verdict = Literal["agrees", "differs", "corrected", "measured"]


class Evidence(NamedTuple):
    """One comparison. `printed` is None where the paper shows a picture or states a trend instead of a number.

    "agrees": the printed number is within the interval, or the stated trend is seen. "differs": it is not, and `why`
    says what the reason is. "corrected": the paper's statement is wrong, and `why` says what is right and was seen.
    "measured": nobody printed or stated anything that it could agree with.
    """

    quantity: str
    printed: float | None
    ours: float
    low: float
    high: float
    verdict: Verdict
    why: str = ""


def interval(values: Sequence[float], errors: float = 2.0) -> tuple[float, float, float]:
    """Mean, and the mean minus and plus so many standard errors; one value has no interval but itself."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, mean, mean
    error = errors * statistics.stdev(values) / math.sqrt(len(values))
    return mean, mean - error, mean + error


def student_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    r"""Mean, and Student's interval of it: $\bar x \mp t_{n-1}\,s/\sqrt n$; one value has no interval but itself.

    Of four values it is 1.6 times as wide as two standard errors, which suppose that their spread is known. Where one
    is not finite, as of a training that diverged, nothing is known.
    """
    if not all(map(math.isfinite, values)):
        return math.nan, -math.inf, math.inf
    if len(values) < 2:
        return interval(values)
    return interval(values, float(stdtrit(len(values) - 1, (1 + level) / 2)))


def trend(quantity: str, differences: Sequence[float], sign: int, said: str = "") -> Evidence:
    """A statement that a difference has a sign: it agrees if the whole interval has it. `said` is its words."""
    ours, low, high = interval(differences)
    if min(sign * low, sign * high) > 0:
        return Evidence(quantity, None, ours, low, high, "agrees", said)
    opposite = max(sign * low, sign * high) < 0
    why = "the opposite is seen" if opposite else "not decided: the interval has zero in it"
    return Evidence(quantity, None, ours, low, high, "differs", f"{said}; {why}" if said else why)


def share_of(quantity: str, share: float, count: int, cases: str, claim: str = "", holds: bool = True) -> Evidence:
    """A share of so many cases, with Wilson's interval: it agrees if the claim holds; without one it is measured.

    `cases` is in words, such as "of 62 networks". The share itself is held to the claim, not its interval.
    """
    verdict: Verdict = "measured" if not claim else "agrees" if holds else "differs"
    why = f"claimed is {claim}; {cases}" if claim else cases
    return Evidence(quantity, None, share, *wilson(share, count), verdict, why)


def wilson(share: float, count: int, errors: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a share seen in `count` cases; at shares of 0 and 1 too it has a width."""
    square = errors**2
    center = (share + square / (2 * count)) / (1 + square / count)
    reach = errors / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return max(0.0, center - reach), min(1.0, center + reach)
