"""Panels, points, intervals, predictions and heat maps: what is described, and what matplotlib draws of it."""

import math
import re
import sys
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import same_color, to_rgba

from orthoscope_papers.drawing import COLUMNS, STYLES, THEORY, UNDEFINED, can_draw, draw, svg, tick_label
from orthoscope_papers.experiments import load
from orthoscope_papers.panels import MAX_BARS, HeatMap, Math, Panel, Series, around, averaged, side_by_side
from orthoscope_papers.results import save, table_of
from papers.figures import drawn

X, Y = [1, 2, 3], [1.0, 2.0, 3.0]


def panel(*series: Series, **options: Any) -> Panel:
    return Panel("title", "measure", "along", series, **{"x_range": (1, 3), "y_range": (0, 4), **options})


def heat(values: list[list[float | None]]) -> HeatMap:
    return HeatMap("title", "share", "width", "batch", [8, 16, 32], [2, 4], values, 0.0, 1.0)


def axes_of(*panels: Panel | HeatMap) -> list[Axes]:
    return draw(panels).axes


def points(axes: Axes, marker: str) -> list[tuple[float, float]]:
    """What the lines with this marker go through."""
    return [tuple(xy) for line in axes.get_lines() if line.get_marker() == marker for xy in line.get_xydata()]


def test_a_scatter_has_a_dot_a_point_and_no_line() -> None:
    [axes] = axes_of(panel(Series("dots", X, Y, marks=True, line=False)))
    assert [line.get_linestyle() for line in axes.get_lines()] == ["None"]
    assert points(axes, "o") == list(zip(X, Y, strict=True))
    [axes] = axes_of(panel(Series("both", X, Y, marks=True)))
    assert points(axes, "o") == points(axes, "") == list(zip(X, Y, strict=True))


def test_dots_that_are_outside_or_undefined_are_left_out() -> None:
    [axes] = axes_of(panel(Series("dots", [1, 2, 3, 9], [1.0, math.nan, 5.0, 1.0], marks=True, line=False)))
    assert points(axes, "o") == [(1.0, 1.0)]


def test_an_interval_is_bars_or_for_many_points_a_band_and_ends_on_the_frame() -> None:
    low, high = [-math.inf, 1.5, 2.5], [1.5, 2.5, math.inf]
    [axes] = axes_of(panel(Series("bars", X, Y, low, high)))
    [bars] = axes.collections
    assert [tuple(bar[:, 1]) for bar in bars.get_segments()] == [(0, 1.5), (1.5, 2.5), (2.5, 4)]
    many = [1 + index / MAX_BARS for index in range(MAX_BARS + 1)]
    [axes] = axes_of(panel(Series("band", many, many, [0.5] * len(many), [math.inf] * len(many))))
    [band] = axes.collections
    outline = band.get_paths()[0].vertices
    assert (outline[:, 1].min(), outline[:, 1].max()) == (0.5, 4)
    [axes] = axes_of(panel(Series("plain", X, Y)))
    assert not axes.collections


def test_predictions_are_black_and_take_no_color_from_the_measured() -> None:
    [axes] = axes_of(panel(Series("theory", X, Y, theory=True), Series("measured", X, Y)))
    assert [line.get_color() for line in axes.get_lines()] == [THEORY[0], STYLES[0][0]]


def test_twelve_series_have_twelve_styles_and_a_thirteenth_is_refused() -> None:
    lines = [Series(str(index), X, Y) for index in range(13)]
    document = svg([panel(*lines[:12])])
    assert len(set(STYLES)) == 12
    for color, _ in STYLES:
        assert color in document
    with pytest.raises(AssertionError, match="one style"):
        svg([panel(*lines)])


def test_a_name_is_in_the_legend_once_and_a_name_is_never_mathematics_by_accident() -> None:
    names = ["_hidden", "$a_1$ & <b>", "x^2", "mean ± 2 s.e."]
    exact = [Series("exact", X, [level] * 3, theory=True) for level in (1.0, 2.0)]
    one = panel(*(Series(name, X, Y) for name in names), *exact, references=[("$level$", 2.0)])
    [axes] = axes_of(one)
    texts = axes.get_legend().get_texts()
    assert [text.get_text() for text in texts] == [*names, "exact"]
    document = drawn([one])
    for text in ("_hidden", "$a_1$ &amp; &lt;b&gt;", "x^2", "$level$"):
        assert f">{text}<" in document


def test_mathematics_is_set_where_a_label_says_so() -> None:
    document = drawn([panel(Series(Math(r"law $\alpha^{2}$"), X, Y))])
    assert ">α<" in document
    assert ">$" not in document


def test_panels_stand_in_rows_of_two() -> None:
    panels = [panel(Series("a", X, Y)) for _ in range(5)]
    figure = draw(panels)
    corners = [(axes.get_position().x0, axes.get_position().y1) for axes in figure.axes]
    assert len({round(x, 6) for x, _ in corners}) == COLUMNS == 2
    assert len({round(y, 6) for _, y in corners}) == 3
    assert corners[0][1] == corners[1][1] > corners[2][1]
    single = draw(panels[:1]).get_size_inches()
    assert tuple(figure.get_size_inches()) == pytest.approx((2 * single[0], 3 * single[1]))


def test_an_axis_holds_all_finite_values_and_references() -> None:
    series = [Series("a", [0, 10], [1.0, math.inf], [0.5, math.nan], [2.0, math.nan])]
    free = Panel("t", "m", "a", series, [("level", 5.0)])
    assert free.x_limits()[0] < 0 < 10 < free.x_limits()[1]
    assert free.y_limits()[0] < 0.5 < 5 < free.y_limits()[1]
    low, high = Panel("t", "m", "a", [Series("a", X, [1e-3, 0.0, 10.0])], log_y=True).y_limits()
    assert 5e-4 < low < 1e-3
    assert 10 < high < 20
    assert around([]) == (0.0, 1.0)
    assert around([3.0]) == (2.5, 3.5)
    assert around([-1.0], logarithmic=True) == (1.0, 10.0)


def test_an_interval_that_ends_near_zero_does_not_stretch_a_logarithmic_axis() -> None:
    one = Panel("t", "m", "a", [Series("a", X, [1.0, 2.0, 3.0], [1e-12, 1.0, 2.0], [2.0, 3.0, 4.0])], log_y=True)
    assert one.y_limits()[0] > 0.5


def test_names_stand_below_their_points() -> None:
    series = side_by_side([Series("a", [1, 2], [1.0, 2.0]), Series("b", [1, 2], [1.0, 2.0])])
    assert [one.x for one in series] == [[0.925, 1.925], [1.075, 2.075]]
    [axes] = axes_of(panel(*series, x_range=None, x_names=["relu", "$tanh$"]))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["relu", "$tanh$"]
    assert axes.get_xlim() == (0.5, 2.5)
    long = ["a name that is too long for a line"] * 5
    [axes] = axes_of(panel(*series, x_range=None, x_names=long))
    assert all(label.get_rotation() > 0 for label in axes.get_xticklabels())


def test_a_heat_map_has_a_cell_a_number_and_gray_where_there_is_none() -> None:
    figure = draw([heat([[0.0, 0.5, 1.0], [None, math.inf, -1.0]])])
    axes, bar = figure.axes
    [image] = axes.get_images()
    cells = image.to_rgba(image.get_array()).reshape(-1, 4)
    viridis = matplotlib.colormaps["viridis"]
    expected = [viridis(0.0), viridis(0.5), viridis(1.0), to_rgba(UNDEFINED), to_rgba(UNDEFINED), viridis(0.0)]
    assert all(same_color(cell, color) for cell, color in zip(cells, expected, strict=True))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "16", "32"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["2", "4"]
    assert [label.get_text() for label in bar.get_xticklabels()] == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


@pytest.mark.parametrize(
    ("value", "label"),
    [(0.0, "0"), (-0.5, "−0.5"), (0.001, "0.001"), (9000, "9000"), (1e4, "$10^{4}$"), (2e-6, r"$2\cdot$$10^{-6}$")],
)
def test_ticks_are_short(value: float, label: str) -> None:
    assert tick_label(value) == label


def test_a_document_is_the_same_again_and_has_no_date_and_short_numbers() -> None:
    panels = [panel(averaged("a", {1: [0.1, 0.2], 2: [math.pi, 1 / 3]})), heat([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])]
    with matplotlib.rc_context({"font.size": 30, "axes.grid": True}):
        again = svg(panels)
    assert svg(panels) == again, "the user's settings change nothing"
    assert "dc:date" not in again
    assert not re.search(r'="[^"]*\d\.\d{4}', re.sub(r'href="[^"]*"', "", again))


def test_without_matplotlib_a_run_is_judged_and_saved_without_its_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = load("daneshmand2021/figure_2a")
    config = experiment.settings["quick"]
    table = table_of(experiment.run(config), experiment.Row)
    save(tmp_path, "here/it", experiment, config, table, seconds=0.1)
    assert (tmp_path / "here/it/figure.svg").is_file()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert not can_draw()
    save(tmp_path, "here/it", experiment, config, table, seconds=0.1)
    assert sorted(file.name for file in (tmp_path / "here/it").iterdir()) == ["meta.json", "table.csv"]
