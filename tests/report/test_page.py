import base64
import hashlib
import re

import pytest

from orthoscope import report
from report.handmade import EXPECTED, document, finding, layer, sequential, undefined_layer
from report.markup import HOSTILE, Page, assert_inert


def hostile_document(text):
    layers = [layer(text, 1, kind=text, also=[text]), layer("b", 2), layer(text, 3, predicted=dict(EXPECTED))]
    hit = finding(text, "found", layer=text, reason=text, unit=text)
    return document(
        layers,
        name=text,
        verdict="SICK",
        summary=text,
        symptoms=["collapse"],
        findings=[hit],
        gradient_of=text,
        notes=[text],
        unobserved=[{"name": text, "reason": text}],
        environment={"python": text},
        prediction={"reason": None, "slope": 0.1, "sources": [{"source": text, "assumes": text}]},
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_no_string_of_a_document_becomes_markup(text):
    unexplained = document(prediction={"reason": text, "slope": None, "sources": []})
    source = report.html([hostile_document(text), unexplained])
    assert_inert(Page(source))
    source.encode("utf-8")  # a lone surrogate would fail here


def test_a_hostile_page_is_still_text_to_the_reader():
    page = Page(report.html([hostile_document(HOSTILE[0])]))
    assert any(HOSTILE[0] in text for text in page.texts)


def test_the_test_can_see_a_script():
    with pytest.raises(AssertionError):
        assert_inert(Page("<p><script>1</script></p>"))


def test_nothing_is_loaded_and_a_policy_says_so():
    source = report.html([document(sick_at="4"), document()])
    page = Page(source)
    markup = source.replace(page.scripts[1], "").replace("http-equiv", "")
    for word in ("http", "url(", "@import"):
        assert word not in markup
    policy = next(value for value in page.values("content") if "default-src 'none'" in value)
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "connect-src" not in policy
    # The only address in the script is the name of a language, which nobody looks up.
    assert set(re.findall(r"https?://[^\"'`\s)]*", page.scripts[1])) == {"http://www.w3.org/2000/svg"}


def test_sections_come_in_order_and_the_verdict_first():
    source = report.html([document(sick_at="4", notes=["a note"])])
    order = [
        "banner sick",
        "Checks",
        "Theory",
        "<h3>Layers",
        "Method",
        "Environment",
    ]
    places = [source.index(words) for words in order]
    assert places == sorted(places)


def test_several_networks_share_a_plane_and_are_linked():
    page = Page(report.html([document(name="a"), document(name="b", sick_at="4"), document(name="c", gap=None)]))
    targets = set(page.values("id"))
    links = page.values("href")
    assert len(links) == 3
    assert {link.removeprefix("#") for link in links} <= targets


@pytest.mark.parametrize(
    ("verdict", "look", "shape"),
    [("HEALTHY", "healthy", "circle"), ("AT RISK", "at-risk", "path"), ("SICK", "sick", "rect")],
)
def test_a_verdict_has_a_word_and_a_shape_besides_its_color(verdict, look, shape):
    page = Page(report.html([document(verdict=verdict)]))
    assert (shape, "class", look) in page.attributes
    assert verdict in page.texts


@pytest.mark.parametrize("layers", [[], [layer("a", 1)], sequential(3), [undefined_layer("a")] * 3], ids=len)
def test_any_number_of_layers_renders(layers):
    source = report.html([document(layers, sick_at="a")])
    shown = " ".join(Page(source).texts)
    assert "None" not in shown
    assert "nan" not in shown


@pytest.mark.parametrize("norm", [0.0, 5e-324, 1e-40, 1e308, None])
def test_extreme_scales_render(norm):
    layers = [layer(str(n), n, rms=norm, gradient_norm=norm) for n in range(1, 5)]
    source = report.html([document(layers, slope={"value": 700.0, "standard_error": None, "layers": 4, "unit": ""})])
    assert "nan" not in " ".join(Page(source).texts).lower()  # and a page that is not well formed is refused


def test_an_isometry_gap_that_is_infinite_is_worded():
    assert "rank-deficient</td>" in report.html([document([layer("a", 1, rank_deficient=True)])])


def test_a_report_without_networks_is_a_page():
    assert "0 networks" in report.html([])


def test_the_notebook_shows_the_page_in_a_sandbox():
    frame = Page(report.notebook(hostile_document(HOSTILE[1])))
    assert frame.tags == ["iframe"]
    assert frame.values("sandbox") == ["allow-scripts allow-downloads"]
    inner = Page(frame.values("srcdoc")[0])
    assert_inert(inner)
    assert "h1" in inner.tags


def test_a_finding_at_risk_differs_from_a_sick_one_by_word_and_sign():
    found = [finding("a", "found"), finding("b", "found", severity="AT RISK")]
    source = report.html([document(findings=found, verdict="SICK")])
    assert "■</span> found, sick" in source
    assert "▲</span> found, at risk" in source
