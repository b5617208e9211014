"""Panels, points, bands, predictions and heat maps."""

import math
from xml.etree import ElementTree

import pytest

from orthoscope_papers.drawing import Heat, Panel, Series, figure, heat_color

SVG = "{http://www.w3.org/2000/svg}"
X, Y = [1, 2, 3], [1.0, 2.0, 3.0]


def panel(*series: Series, **options: object) -> Panel:
    return Panel("title", "measure", "along", (1, 3), (0, 4), series, **options)  # type: ignore[arg-type]


def count(drawn: str, tag: str) -> int:
    return len(list(ElementTree.fromstring(drawn).iter(SVG + tag)))


def heat(values: list[list[float | None]], **options: object) -> Heat:
    return Heat("title", "share", "width", "batch", [8, 16, 32], [2, 4], values, 0.0, 1.0, **options)  # type: ignore[arg-type]


def test_a_scatter_has_a_dot_a_point_and_no_line() -> None:
    drawn = figure([panel(Series("dots", X, Y, marks=True, line=False))])
    assert count(drawn, "circle") == 3 + 1, "three points and one in the legend"
    assert count(drawn, "polyline") == 0
    both = figure([panel(Series("both", X, Y, marks=True))])
    assert (count(both, "circle"), count(both, "polyline")) == (4, 1)


def test_points_that_are_outside_or_undefined_are_left_out() -> None:
    drawn = figure([panel(Series("dots", [1, 2, 3, 9], [1.0, math.nan, 5.0, 1.0], marks=True, line=False))])
    assert count(drawn, "circle") == 1 + 1
    assert "nan" not in drawn


def test_an_interval_is_bars_or_a_band_or_nothing() -> None:
    low, high = [0.5, 1.5, 2.5], [1.5, 2.5, math.inf]
    bars = figure([panel(Series("bars", X, Y, low, high))])
    band = figure([panel(Series("band", X, Y, low, high, band=True))])
    plain = figure([panel(Series("plain", X, Y))])
    assert [count(drawn, "path") for drawn in (bars, band, plain)] == [4, 1, 1]
    assert [count(drawn, "polygon") for drawn in (bars, band, plain)] == [0, 1, 0]
    assert "inf" not in band


def test_predictions_are_black_and_take_no_color_from_the_measured() -> None:
    drawn = figure([panel(Series("theory", X, Y, theory=True), Series("measured", X, Y))])
    strokes = [line.get("stroke") for line in ElementTree.fromstring(drawn).iter(SVG + "polyline")]
    assert strokes == ["#1c1f24", "#0072b2"]


def test_twelve_series_have_twelve_styles_and_a_thirteenth_is_refused() -> None:
    lines = [Series(str(index), X, Y) for index in range(13)]
    drawn = ElementTree.fromstring(figure([panel(*lines[:12])]))
    styles = {(line.get("stroke"), line.get("stroke-dasharray")) for line in drawn.iter(SVG + "polyline")}
    assert len(styles) == 12
    with pytest.raises(AssertionError, match="one style"):
        figure([panel(*lines)])


def test_panels_stand_in_rows_of_so_many() -> None:
    panels = [panel(Series("a", X, Y)) for _ in range(5)]
    sizes = {}
    for columns in (None, 2, 9):
        root = ElementTree.fromstring(figure(panels, columns=columns))
        sizes[columns] = (int(root.get("width", 0)), int(root.get("height", 0)))
    assert sizes[None] == sizes[9] == (5 * 460, 293)
    assert sizes[2] == (2 * 460, 3 * 293)
    places = [group.get("transform") for group in ElementTree.fromstring(figure(panels, columns=2)).iter(SVG + "g")]
    assert places[:3] == ["translate(0 0)", "translate(460 0)", "translate(0 293)"]


def test_places_are_vertical_lines_with_their_names() -> None:
    assert ">layer 2<" in figure([panel(Series("a", X, Y), places=[("layer 2", 2)])])


def test_a_heat_map_has_a_cell_a_number_and_gray_where_there_is_none() -> None:
    drawn = figure([heat([[0.0, 0.5, 1.0], [None, math.inf, 0.25]])])
    fills = [rect.get("fill") for rect in ElementTree.fromstring(drawn).iter(SVG + "rect")]
    cells = fills[1:7]
    assert cells == ["#440154", "#21918c", "#fde725", "#d0d3d8", "#d0d3d8", "#3b528b"]
    assert len(fills) == 1 + 6 + 40, "the page, the cells and the color bar"
    for label in (">8<", ">32<", ">2<", ">4<", ">share; upward: batch<"):
        assert label in drawn


def test_colors_stay_at_the_ends_beyond_them_and_may_be_logarithmic() -> None:
    assert heat_color(-1.0) == heat_color(0.0) == "#440154"
    assert heat_color(2.0) == heat_color(1.0) == "#fde725"
    shown = Heat("t", "m", "a", "u", [1], [1], [[1e-2]], 1e-4, 1.0, logarithmic=True)
    assert 'fill="#21918c"' in figure([shown, panel(Series("a", X, Y))])
