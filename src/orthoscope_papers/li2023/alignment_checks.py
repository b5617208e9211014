"""RA1 to RA4 of li2023 in numbers: trained against initial, with skips against without, seed by seed."""

import math
from collections.abc import Sequence

from orthoscope_papers.evidence import Evidence, interval
from orthoscope_papers.li2023.trained_networks import Row

# Two standard errors of a few seeds are no certainty, so every difference must also have the size of an effect.
ERRORS = 2.0
# Of the way from the untrained network to a perfectly aligned one.
NEARER = 0.25


def values(rows: Sequence[Row], data: str, quantity: str, *, skip: bool = True, trained: bool = True) -> list[float]:
    """A score of every seed, in the order of the seeds."""
    own = [r for r in rows if (r.data, r.quantity, r.skip, r.trained) == (data, quantity, int(skip), int(trained))]
    return [row.value for row in sorted(own, key=lambda row: row.seed)]


def datasets(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.data for row in rows))


def gained(rows: Sequence[Row], data: str, quantity: str, *, over_no_skip: bool = False) -> tuple[float, float, float]:
    """By how much training raised a score, or skips did, seed by seed: mean and interval."""
    after = values(rows, data, quantity)
    before = values(rows, data, quantity, skip=not over_no_skip, trained=over_no_skip)
    return interval([a - b for a, b in zip(after, before, strict=True)], ERRORS)


def rises(rows: Sequence[Row], quantity: str, least: float, *, over_no_skip: bool = False) -> bool:
    """On every dataset, by at least so much, beyond the interval."""
    found = [gained(rows, data, quantity, over_no_skip=over_no_skip) for data in datasets(rows)]
    return all(low > 0 and mean >= least for mean, low, _ in found)


def falls(rows: Sequence[Row], quantity: str, least: float, *, over_no_skip: bool = False) -> bool:
    found = [gained(rows, data, quantity, over_no_skip=over_no_skip) for data in datasets(rows)]
    return all(high < 0 and mean <= -least for mean, _, high in found)


def check_aligned(rows: list[Row]) -> dict[str, bool]:
    """RA1 to RA4 of networks that align."""
    return {
        "RA1: training straightens the path, the cosine of adjacent steps rises by 0.3": rises(
            rows, "step_cosine", 0.3
        ),
        "RA1: and so do skips: without them it is lower by 0.3": rises(rows, "step_cosine", 0.3, over_no_skip=True),
        "RA1: steps are even, their lengths vary by less than 60 percent": all(
            interval(values(rows, data, "spacing_variation"), ERRORS)[2] < 0.6 for data in datasets(rows)
        ),
        "RA2: leading singular vectors are shared, misalignment falls by 0.2": falls(rows, "leading_misalignment", 0.2),
        "RA2: with skips alone: without them it is higher by 0.2": falls(
            rows, "leading_misalignment", 0.2, over_no_skip=True
        ),
        "RA3: the rank falls to the number of classes, σ11/σ1 by 0.1, to less than 0.1": falls(rows, "rank_ratio", 0.1)
        and all(interval(values(rows, data, "rank_ratio"), ERRORS)[2] < 0.1 for data in datasets(rows)),
        "RA4: 1/σ1 grows with depth on at least one dataset, five times as fast as before training": _grows(rows),
        "RA4: with skips alone: without them its slope is lower by 0.3": rises(rows, "slope", 0.3, over_no_skip=True),
    }


def check_beginnings(rows: list[Row]) -> dict[str, bool]:
    """What a short training of a convolutional network shows: the same, but little of RA2 and nothing of RA4."""
    return {
        "RA1: training straightens the path, the cosine of adjacent steps rises by 0.05": rises(
            rows, "step_cosine", 0.05
        ),
        "RA1: and so do skips: without them it is lower by 0.3": rises(rows, "step_cosine", 0.3, over_no_skip=True),
        "RA2: misalignment of the first ten singular vectors falls by 0.01": falls(rows, "misalignment", 0.01),
        "RA2: with skips alone: without them it is higher by 0.01": falls(
            rows, "misalignment", 0.01, over_no_skip=True
        ),
        "RA3: the rank falls, σ11/σ1 by 0.1": falls(rows, "rank_ratio", 0.1),
    }


def _grows(rows: Sequence[Row]) -> bool:
    for data in datasets(rows):
        mean, low, _ = interval(values(rows, data, "slope"), ERRORS)
        before = values(rows, data, "slope", trained=False)
        if low > 0 and mean > 5 * abs(sum(before) / len(before)):
            return True
    return False


def _nearer(rows: Sequence[Row], data: str, quantity: str, perfect: float) -> float:
    """The part of the way to `perfect` that training went, the lower end of its interval over seeds."""
    pairs = zip(values(rows, data, quantity, trained=False), values(rows, data, quantity), strict=True)
    return interval([1 - abs(after - perfect) / abs(before - perfect) for before, after in pairs], ERRORS)[1]


def compare(rows: list[Row]) -> list[Evidence]:
    """Every score of the trained network beside its limit in an aligned one, which is what the paper states.

    It agrees if training brought it nearer to that, by a quarter of the way at least, and beyond the interval.
    """
    found = []
    for data in datasets(rows):
        for quantity, words, perfect in (
            ("step_cosine", "RA1: cosine of adjacent steps", 1.0),
            ("spacing_variation", "RA1: spread of step lengths", 0.0),
            ("leading_misalignment", "RA2: misalignment of the first singular vectors", 0.0),
            ("misalignment", "RA2: misalignment of the first ten", 0.0),
            ("rank_ratio", "RA3: σ11/σ1", 0.0),
            ("slope", "RA4: slope of 1/σ1 over depth", 1.0),
            ("exponent", "RA4: exponent of depth", -1.0),
        ):
            ours = interval(values(rows, data, quantity), ERRORS)
            before = interval(values(rows, data, quantity, trained=False))[0]
            without = interval(values(rows, data, quantity, skip=False))[0]
            why = f"{before:.2f} before training, {without:.2f} without skips"
            nearer = _nearer(rows, data, quantity, perfect)
            if nearer > NEARER:
                why += f"; training went {nearer:.0%} of the way, with certainty"
                found.append(Evidence(f"{words}, {data}", perfect, *ours, "agrees", why))
            else:
                passed = (ours[0] - perfect) * (before - perfect) < 0
                how = "went past it" if passed else f"did not go {NEARER:.0%} of the way with certainty"
                why += f"; training {how}, and why was not tested"
                found.append(Evidence(f"{words}, {data}", perfect, *ours, "differs", why))
    return [row for row in found if math.isfinite(row.ours)]
