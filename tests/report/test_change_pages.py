"""Pages of a comparison and of a fix: numbers where they belong, before told from after, strings that stay text."""

import re

import jsonschema
import pytest

from orthoscope import report
from orthoscope.report.fix_page import prescribed
from report.changes import comparison, fix, network
from report.markup import HOSTILE, Page, assert_inert

LEFT, RIGHT, TOP, BOTTOM = 44, 328, 40, 186  # of a chart, in its own pixels


@pytest.mark.slow
@pytest.mark.parametrize("make", [comparison, fix])
@pytest.mark.parametrize("text", HOSTILE)
def test_no_string_of_a_change_becomes_markup(make, text):
    source = report.html([make(text)])
    assert_inert(Page(source))
    source.encode("utf-8")


@pytest.mark.parametrize("make", [comparison, fix])
def test_a_hostile_name_is_text_to_the_reader_and_nothing_is_loaded(make):
    source = report.html([make(HOSTILE[0])])
    page = Page(source)
    assert sum(HOSTILE[0] in text for text in page.texts) > 5
    assert any(value.startswith("default-src 'none'") for value in page.values("content"))
    markup = source.replace("http-equiv", "") if not page.scripts else source.replace(page.scripts[1], "")
    for word in ("http:", "https:", "url(", "@import"):
        assert word not in markup


@pytest.mark.slow
def test_documents_made_by_hand_follow_the_schema():
    for made in (comparison(), fix(), fix(steps=False), prescribed(fix())):
        jsonschema.validate(made, report.schema())


def test_profiles_lie_over_each_other_and_are_told_apart_by_their_strokes():
    source = report.html([comparison()])
    figure = source[source.index("<figcaption>Orthogonality gap") :]
    figure = figure[: figure.index("</figure>")]
    drawn = {look: points for points, look in re.findall(r'<polyline points="([^"]*)" class="([^"]*)"', figure)}
    for look, gaps in (("line-second", (0.2, 0.5, 0.9)), ("line-strong", (0.2, 0.25, 0.3))):
        expected = [
            (LEFT + (RIGHT - LEFT) * index / 2, BOTTOM + (TOP - BOTTOM) * gap) for index, gap in enumerate(gaps)
        ]
        found = [tuple(map(float, pair.split(","))) for pair in drawn[look].split()]
        assert found == [pytest.approx(place, abs=0.06) for place in expected]
    style = source[: source.index("</style>")]
    assert "stroke-dasharray" in style[style.index(".line-second") :].split("}")[0]
    assert "stroke-dasharray" not in style[style.index(".line-strong") :].split("}")[0]
    assert ">before</text>" in figure
    assert ">after</text>" in figure


def test_an_arrow_leads_from_where_the_network_was_to_where_it_is():
    source = report.html([comparison()])
    places = re.findall(r'data-when="(\w+)" data-gap="([^"]*)" data-slope="([^"]*)"', source)
    assert places == [("before", "0.9", "-0.4"), ("after", "0.3", "0.01")]
    x1, y1, x2, y2 = map(
        float, re.search(r'x1="(\S+)" y1="(\S+)" x2="(\S+)" y2="(\S+)" class="change"', source).groups()
    )
    assert x1 > x2  # to a smaller gap
    assert y1 > y2  # and up, to a slope near zero
    tip = float(re.search(r'<polygon points="([^,]*),\S+ \S+ \S+" class="change-head"', source)[1])
    assert tip < x2
    cloud = report.viewer.reference_cloud()
    drawn = [source.count(f'class="cloud-{kind}"/>') - 1 for kind in ("trained", "failed")]  # one is in the legend
    assert drawn == [sum(one["trained"] for one in cloud), sum(not one["trained"] for one in cloud)]


def test_what_has_no_place_or_no_layers_is_still_compared():
    empty = comparison() | {
        "before": network("a", [0.1], gap=None),
        "after": network("b", [0.1], gap=None),
        "layers": [],
    }
    empty["after"]["layers"] = []
    source = report.html([empty])
    assert "<h1>a → b</h1>" in source
    assert "data-when" not in source
    assert "change-head" not in source[source.index("<body>") :]


def test_a_fix_shows_what_was_kept_first_and_leaves_out_what_does_not_apply():
    assert [(one["name"], one["outcome"]) for one in prescribed(fix())["prescriptions"]] == [
        ("mend layer", "kept"),
        ("tried layer", "tried"),
        ("not tried layer", "not tried"),
    ]
    source = report.html([fix()])
    body = source[source.index("<body>") : source.index('<script type="application/json"')]
    order = ["banner sick", "What to change", "gap 0.31, slope +0.012", "What was changed", "Code to paste", "Numbers"]
    places = [body.index(words) for words in order]
    assert places == sorted(places)
    assert "far-fetched" not in source
    assert "import orthoscope\nmend(model, &#x27;layer&#x27;)" in body


def test_a_fix_that_changed_nothing_says_so_and_compares_nothing():
    body = report.html([fix(steps=False)])
    body = body[body.index("<body>") : body.index('<script type="application/json"')]
    assert "nothing was changed" in body
    assert "Code to paste" not in body
    assert "data-when" not in body
