"""What the figures of li2023 show, drawn from the table: paths, pairs of blocks, singular vectors, singular values."""

from collections.abc import Sequence
from statistics import fmean

from orthoscope_papers.li2023.alignment_checks import datasets, values
from orthoscope_papers.li2023.trained_networks import ENTRY, FIRST_AXIS, LEADING, PAIR, SECOND_AXIS, Row
from orthoscope_papers.panels import HeatMap, Math, Panel, Series, averaged, side_by_side

_ARMS = (("trained", True, True), ("initial", True, False), ("trained, no skips", False, True))
_SCORES = (
    ("step_cosine", "RA1: cosine of adjacent steps"),
    ("leading_misalignment", "RA2: misalignment of first singular vectors"),
    ("rank_ratio", Math(r"RA3: $\sigma_{11}/\sigma_1$")),
    ("exponent", Math(r"RA4: exponent of depth in $\sigma_1$")),
)


def plot(rows: list[Row]) -> list[Panel | HeatMap]:
    """A row of panels for every dataset, and one for the scores of all."""
    panels: list[Panel | HeatMap] = []
    for data in datasets(rows):
        own = [row for row in rows if row.data == data]
        panels += [_path(own, data), _inverse(own, data), _pairs(own, data), _entries(own, data)]
    return [*panels, *(_scores(rows, name, words) for name, words in _SCORES)]


def _path(rows: Sequence[Row], data: str) -> Panel:
    """RA1: one input on the two principal axes of its path, in units of the way from end to end."""
    series = []
    for name, trained in (("trained", 1), ("initial", 0)):
        first, second = (
            [row.value for row in rows if row.trained == trained and row.quantity == axis]
            for axis in (FIRST_AXIS, SECOND_AXIS)
        )
        series.append(Series(name, first, second, marks=True))
    measure = f"second principal axis, one input, seed {_pictured(rows)}"
    return Panel(f"RA1, {data}", measure, "first principal axis", series)


def _inverse(rows: Sequence[Row], data: str) -> Panel:
    """RA4: one over the largest singular value of every block."""
    series = []
    for name, skip, trained in _ARMS:
        own = [r for r in rows if (r.quantity, r.skip, r.trained) == (LEADING, int(skip), int(trained)) and r.value > 0]
        series.append(averaged(name, [(row.block, 1 / row.value) for row in own]))
    measure = f"1/σ₁, mean ± 2 s.e. of {len({row.seed for row in rows})} seeds"
    return Panel(f"RA4, {data}", measure, "block", series, log_y=True)


def _pairs(rows: Sequence[Row], data: str) -> HeatMap:
    """RA2: how far block i is from the singular vectors of block j."""
    measure = f"misalignment, trained, seed {_pictured(rows)}"
    return _heat(rows, PAIR, f"RA2, {data}: pairs of blocks", measure, ("block j", "block i"))


def _entries(rows: Sequence[Row], data: str) -> HeatMap:
    title = f"RA2, {data}: singular vectors"
    measure = f"|uᵀJv|/σ₁, trained, seed {_pictured(rows)}"
    return _heat(rows, ENTRY, title, measure, ("singular vectors of all blocks j", "of blocks i"))


def _pictured(rows: Sequence[Row]) -> int:
    """The seed of which paths and matrices were kept."""
    return next(row.seed for row in rows if row.quantity == PAIR)


def _heat(rows: Sequence[Row], quantity: str, title: str, measure: str, names: tuple[str, str]) -> HeatMap:
    own = {(row.block, row.other): row.value for row in rows if row.quantity == quantity and row.trained}
    places = sorted({block for block, _ in own})
    grid = [[own[row, column] for column in places] for row in places]
    return HeatMap(title, measure, *names, places, places, grid, 0.0, 1.0)


def _scores(rows: Sequence[Row], quantity: str, words: str) -> Panel:
    """Every seed of every arm, datasets side by side."""
    names = datasets(rows)
    series = []
    for name, skip, trained in _ARMS:
        x, y = [], []
        for place, data in enumerate(names, start=1):
            found = values(rows, data, quantity, skip=skip, trained=trained)
            x += [place] * len(found)
            y += found
        series.append(Series(f"{name}, mean {fmean(y):.2f}", x, y, marks=True, line=False))
    seeds = len({row.seed for row in rows})
    return Panel(words, f"every one of {seeds} seeds", "", side_by_side(series), x_names=names)
