"""What a browser makes of a page, and whether anything in it could act."""

from html.parser import HTMLParser
from importlib import resources

Attributes = list[tuple[str, str | None]]
VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='alert(1)",
    "</style></svg></title><iframe src=//evil.example>",
    "javascript:alert(1)",
    "👩‍💻 \u202e\ud800\x00 &amp; {}%s",
    "very_long_name." * 200,
]


class Page(HTMLParser):
    """What a browser would see: tags, attributes, text; fails on tags that do not nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Attributes) -> None:
        self.tags.append(tag)
        if tag == "script":
            self.scripts.append("")
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Attributes) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def assert_inert(page: Page) -> None:
    """No script but the viewer and its data, and nothing that loads or acts."""
    assert len(page.scripts) in (0, 2)
    if page.scripts:
        assert page.values("type") == ["text/plain"]
        assert page.scripts[1] == resources.files("orthoscope.report").joinpath("viewer.js").read_text("utf-8")
    assert not {"iframe", "img", "link", "object", "embed", "form", "base"} & set(page.tags)
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in {"src", "srcset", "style", "xlink:href"}
        if name == "href":
            assert value.startswith("#network-")
