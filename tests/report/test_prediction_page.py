import re
from typing import Any

import pytest

from orthoscope import report
from orthoscope.report.prediction_page import prediction_charts
from report.handmade import depth, prediction, unknown_prediction
from report.markup import HOSTILE, Page, assert_inert

TITLES = ("Mean overlap", "Orthogonality gap", "Effective rank", "Isometry gap", "RMS", "Gradient growth")


def hostile_prediction(text: str) -> dict[str, Any]:
    statement = {"source": text, "assumes": text}
    row = depth(1, "SICK")
    row["findings"][0] |= {"symptom": text, "check": text, "reason": text}
    limit = {"name": text, "value": 0.1, "unit": text, **statement}
    environment = {"python": text}
    return prediction(
        1, 1, 1, name=text, summary=text, sources=[statement], limit=[limit], depths=[row], environment=environment
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_no_string_of_a_prediction_becomes_markup(text: str) -> None:
    source = report.html([hostile_prediction(text)])
    assert_inert(Page(source))
    source.encode("utf-8")  # a lone surrogate would fail here
    assert "url(" not in source


def test_a_hostile_page_is_still_text_to_the_reader() -> None:
    # Title and heading, summary, 3 of the finding, once in the row, 4 of the limit, 2 of the source, environment.
    page = Page(report.html([hostile_prediction(HOSTILE[0])]))
    assert sum(HOSTILE[0] in text for text in page.texts) == 14


def test_nothing_is_loaded_and_a_policy_says_so() -> None:
    source = report.html([prediction()])
    assert "http" not in source.replace("http-equiv", "")
    assert any("default-src 'none'" in value for value in Page(source).values("content"))


def test_sections_come_in_order_and_the_answer_first() -> None:
    source = report.html([prediction()])
    order = [
        "19 of 60",
        "starting overlap",
        "By depth",
        "What ends it",
        "<summary>Depths",
        "All 60 depths",
        "As depth grows",
        "Who says so",
        "Environment",
    ]
    places = [source.index(words) for words in order]
    assert places == sorted(places)


def test_there_is_a_chart_for_every_quantity_against_depth_with_the_mark() -> None:
    figures = prediction_charts(prediction())
    assert len(figures) == len(TITLES)
    for title, figure in zip(TITLES, figures, strict=True):
        assert f"<figcaption>{title}" in figure
        assert "depth (hidden layers)" in figure
        assert "module call" not in figure
        assert ">at risk from depth 20</text>" in figure
        assert figure.count("<polyline") == 1
    assert [figure.count('class="band"') for figure in figures] == [1, 0, 0, 0, 0, 0]


def test_the_mark_is_at_its_depth() -> None:
    (x,) = re.findall(r'<line x1="([^"]*)" [^>]*class="marker"', prediction_charts(prediction(61, 31, None))[0])
    assert float(x) == (44 + 328) / 2  # in the middle of 1..61
    assert "marker-head" not in prediction_charts(prediction(60, None, None))[0]


def test_the_band_is_one_deviation_either_way_and_ends_where_it_is_unknown() -> None:
    made = prediction(9, None, None)
    for row in made["depths"]:
        row |= {"overlap": 0.5, "overlap_deviation": None if row["depth"] == 5 else 0.2}
    figure = prediction_charts(made)[0]
    bands = re.findall(r'<polygon points="([^"]*)" class="band"/>', figure)
    assert len(bands) == 2
    edges = {float(point.split(",")[1]) for band in bands for point in band.split()}
    ticks = {label: float(y) for y, label in re.findall(r'y="([^"]*)" class="tick" text-anchor="end">([^<]*)', figure)}
    middle, one = (ticks["0.4"] + ticks["0.6"]) / 2 - 3.5, ticks["0"] - ticks["1"]  # labels hang below their line
    assert sorted(edges) == pytest.approx([middle - 0.2 * one, middle + 0.2 * one], abs=0.2)


def test_a_band_stays_within_the_axis() -> None:
    made = prediction(3, None, None)
    for row in made["depths"]:
        row |= {"overlap": 0.9, "overlap_deviation": 1.0}
    (band,) = re.findall(r'<polygon points="([^"]*)"', prediction_charts(made)[0])
    assert {point.split(",")[1] for point in band.split()} == {"40.0", f"{40 + 146 * 1.1 / 1.5:.1f}"}  # -0.1 on -0.5..1


@pytest.mark.parametrize("made", [prediction(1, None, None), prediction(7, 7, 7, first=7)], ids=["1", "7"])
def test_one_depth_is_a_dot(made: dict[str, Any]) -> None:
    source = report.html([made])
    Page(source)
    assert source.count('class="line-strong dot"') == len(TITLES)
    assert "All 1 depths" not in source


@pytest.mark.parametrize("last", [1, 2, 60])
def test_a_prediction_without_numbers_is_a_page_of_dashes(last: int) -> None:
    source = report.html([unknown_prediction(last)])
    page = Page(source)
    assert "polyline" not in page.tags
    assert "None" not in source
    assert "No check finds anything" in source
    assert "Who says so" not in source


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-40, 1e308, -1e308, 3])
def test_extreme_numbers_render(value: float) -> None:
    numbers = {"rms": abs(value), "gradient_growth": value, "isometry_gap": abs(value), "overlap": value}
    depths = [depth(1), depth(2) | numbers, depth(3, gradient_growth=-value)]
    source = report.html([prediction(3, None, None, depths=depths)])
    Page(source)
    assert not re.search(r"\b(nan|inf)\b", source)


def test_undefined_depths_leave_a_gap() -> None:
    made = prediction(9, None, None)
    made["depths"][4]["gap"] = None
    assert [figure.count("<polyline") for figure in prediction_charts(made)] == [1, 2, 1, 1, 1, 1]


def test_what_ends_it_says_where_each_severity_begins() -> None:
    source = report.html([prediction()])
    row = re.search(r"<td>the reason at depth 20</td>(.*?)</tr>", source)
    assert row is not None
    assert row[1] == '<td class="n">20</td><td class="n">40</td>'


@pytest.mark.parametrize(
    ("made", "look", "shape"),
    [
        (prediction(9, None, None), "healthy", "circle"),
        (prediction(9, 5, None), "at-risk", "path"),
        (prediction(9, 5, 9), "sick", "rect"),
    ],
)
def test_the_banner_has_the_color_of_the_deepest_and_the_verdict_a_shape(
    made: dict[str, Any], look: str, shape: str
) -> None:
    page = Page(report.html([made]))
    assert ("div", "class", f"banner {look}") in page.attributes
    assert (shape, "class", look) in page.attributes


@pytest.mark.slow
def test_two_thousand_depths_stay_below_two_megabytes() -> None:
    source = report.html([prediction(2000, 800, 1200)])
    assert len(source.encode()) < 2_000_000
    assert source.count("<tr>") > 2000


def test_the_notebook_shows_the_page_in_a_sandbox() -> None:
    frame = Page(report.notebook(hostile_prediction(HOSTILE[1])))
    assert frame.tags == ["iframe"]
    assert frame.values("sandbox") == ["allow-scripts allow-downloads"]
    inner = Page(frame.values("srcdoc")[0])
    assert_inert(inner)
    assert "h1" in inner.tags
