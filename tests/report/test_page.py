"""The shell of a page, which Python writes: the policy, the data, and the text that is read without a script."""

import base64
import hashlib
import html
import json
import re
import zlib

import jsonschema
import pytest

from orthoscope import report
from orthoscope.report.pages import deflated
from report.handmade import document, layer
from report.kinds import KINDS, diagnosis
from report.markup import HOSTILE, Page, assert_inert

VALIDATOR = jsonschema.Draft202012Validator(report.schema())


def inflated(text):
    """The inverse of `deflated`, as the viewer has it."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


@pytest.mark.parametrize("kind", KINDS)
def test_documents_made_by_hand_follow_the_schema(kind):
    VALIDATOR.validate(KINDS[kind]("layer"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_string_of_a_document_becomes_markup(kind, text):
    source = report.html([KINDS[kind](text)])
    assert_inert(Page(source))
    source.encode("utf-8")  # a lone surrogate would fail here


@pytest.mark.parametrize("kind", KINDS)
def test_the_data_are_the_document_and_the_text_is_what_a_terminal_prints(kind):
    made = KINDS[kind](HOSTILE[0])
    source = report.html([made])
    page = Page(source)
    assert inflated(page.scripts[0])["documents"] == [made]
    printed = report.text(made, 110).rstrip("\n")
    assert HOSTILE[0][:8] in printed
    assert html.escape(printed) in source
    if kind == "watch":
        assert html.escape(report.text(made["latest"], 110).rstrip("\n")) in source
    assert sum(HOSTILE[0] in text for text in page.texts) >= 2  # the title, the heading


def test_the_test_can_see_a_script():
    with pytest.raises(AssertionError):
        assert_inert(Page("<p><script>1</script></p>"))


def test_nothing_is_loaded_and_a_policy_says_so():
    source = report.html([document(sick_at="4"), document()])
    page = Page(source)
    markup = source.replace(page.scripts[0], "").replace(page.scripts[1], "").replace("http-equiv", "")
    for word in ("http", "url(", "@import"):
        assert word not in markup
    policy = next(value for value in page.values("content") if "default-src 'none'" in value)
    digest = base64.b64encode(hashlib.sha256(page.scripts[1].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "connect-src" not in policy
    # The only address in the script is the name of a language, which nobody looks up.
    assert set(re.findall(r"https?://[^\"'`\s)]*", page.scripts[1])) == {"http://www.w3.org/2000/svg"}


def test_data_are_plain_letters_that_cannot_end_their_element():
    value = ["</script><script>alert(1)</script>", "<!--", "\ud800", {"a": None, "b": [0.1, 1e-300]}]
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", deflated(value))
    assert inflated(deflated(value)) == value


@pytest.mark.slow
def test_a_thousand_layers_take_few_bytes():
    assert len(deflated(document([layer(str(n), n) for n in range(1000)]))) < 20_000


def test_several_networks_are_tabled_before_each_is_told():
    source = report.html([document(name="first"), document(name="second", sick_at="4")])
    assert "<title>2 networks: 1 sick, 1 healthy" in source
    static = source[source.index("<pre") : source.index("</pre>")]
    assert static.index("end rank") < static.index("VERDICT")
    assert static.count("VERDICT") == 2


def test_a_comparison_of_two_names_has_both_in_its_title():
    both = KINDS["comparison"]("a")
    both["after"]["name"] = "<b>"
    assert "<h1>a → &lt;b&gt;</h1>" in report.html([both])


def test_a_report_without_networks_is_a_page():
    assert "0 networks" in report.html([])


@pytest.mark.parametrize("kind", KINDS)
def test_the_notebook_shows_the_page_in_a_sandbox(kind):
    frame = Page(report.notebook(KINDS[kind](HOSTILE[1])))
    assert frame.tags == ["iframe"]
    assert frame.values("sandbox") == ["allow-scripts allow-downloads"]
    inner = Page(frame.values("srcdoc")[0])
    assert_inert(inner)
    assert "h1" in inner.tags


@pytest.mark.parametrize("norm", [0.0, 5e-324, 1e-40, 1e308, None])
def test_extreme_scales_are_written(norm):
    layers = [layer(str(n), n, rms=norm, gradient_norm=norm) for n in range(1, 5)]
    slope = {"value": 700.0, "standard_error": None, "layers": 4, "unit": ""}
    assert "nan" not in " ".join(Page(report.html([diagnosis() | {"layers": layers, "slope": slope}])).texts).lower()
