"""What a notebook and a data frame get: an isolated page, text beside it, rows with the numbers, figures."""

import functools
import html
import json
import math
import re
import sys
from html.parser import HTMLParser

import matplotlib
import pandas
import polars
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from torch import nn

import orthoscope
from orthoscope import diagnosis as diagnoses
from orthoscope import report

EVIL = "<script>alert(1)</script>"
_MATHEMATICS = "$\\frac{ & <b>"


@functools.cache
def diagnosed() -> orthoscope.Diagnosis:
    model = orthoscope.models.MLP(depth=6, width=32, activation="relu", generator=torch.Generator().manual_seed(0))
    return orthoscope.diagnose(
        model, torch.randn(16, 32, generator=torch.Generator().manual_seed(1)), name=_MATHEMATICS
    )


@functools.cache
def aligned() -> orthoscope.Alignment:
    model = orthoscope.models.ResNet(kind=1, blocks=3, width=8, in_channels=1, image_size=4)
    return orthoscope.align(model, torch.randn(8, 1, 4, 4), classes=3)


@functools.cache
def watched() -> orthoscope.Watch:
    model = nn.Sequential()
    for name in (EVIL, "two", "three", "four"):
        model.add_module(name, nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with orthoscope.watch(model, every=1, logger=None, updates=True) as w:
        for _ in range(3):
            model(torch.randn(12, 8)).square().mean().backward()
            optimizer.step()
    return w


VIEWED = {
    "diagnosis": diagnosed,
    "forecast": lambda: orthoscope.predict("mlp(activation=relu, depth=1..12, width=64)", samples=16),
    "alignment": aligned,
    "watch": watched,
}


@pytest.fixture(params=list(VIEWED))
def viewed(request: pytest.FixtureRequest) -> diagnoses.document.Viewed:
    return VIEWED[request.param]()


class Frames(HTMLParser):
    """All elements of some markup."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attributes)))


@pytest.mark.slow
def test_a_notebook_shows_the_page_in_an_iframe_without_an_origin(viewed: diagnoses.document.Viewed) -> None:
    data, _ = DisplayFormatter().format(viewed)
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/plain"] == str(viewed)
    ((tag, attributes),) = Frames(data["text/html"]).found
    assert tag == "iframe"
    assert set((attributes["sandbox"] or "").split()) == {"allow-scripts", "allow-downloads"}
    page = attributes["srcdoc"]
    assert page is not None
    assert page.startswith("<!doctype html>")
    assert EVIL not in page
    assert re.sub(r"\d+\.\d+", "", page) == re.sub(r"\d+\.\d+", "", report.html([viewed.document()]))
    assert set(viewed._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
    assert set(viewed._repr_mimebundle_(exclude=["text/plain"])) == {"text/html"}


def test_a_module_named_script_stays_text_in_the_notebook() -> None:
    shown = watched()._repr_html_()
    assert [tag for tag, _ in Frames(shown).found] == ["iframe"]
    assert html.escape(html.escape(EVIL)) in shown


ROWS = {
    "diagnosis": lambda document: len(document["layers"]),
    "forecast": lambda document: 12,
    "alignment": lambda document: len(document["blocks"]),
    "watch": lambda document: 3,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(VIEWED))
def test_pandas_and_polars_get_the_same_rows(kind: str) -> None:
    one = VIEWED[kind]()
    frame, other = one.to_frame(), one.to_frame("polars")
    assert isinstance(frame, pandas.DataFrame)
    assert isinstance(other, polars.DataFrame)
    assert len(frame) == ROWS[kind](one.document()) == other.height
    assert list(frame.columns) == other.columns
    for name in other.columns:
        pairs = zip(frame[name].tolist(), other[name].to_list(), strict=True)
        assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in pairs), name


def test_the_rows_of_a_diagnosis_are_its_layers() -> None:
    one = diagnosed()
    frame = one.to_frame()
    assert frame["name"].tolist() == [layer.name for layer in one.layers]
    for column in ("gap", "effective_rank", "overlap", "rms", "gradient_norm", "isometry_gap"):
        assert frame[column].tolist() == [getattr(layer, column) for layer in one.layers]
    expected = [one.expected.of(layer) for layer in one.layers]
    known = [index for index, number in enumerate(expected) if number is not None]
    assert len(known) > 6
    assert frame["predicted_gap"].iloc[known].tolist() == [expected[index].gap for index in known]  # type: ignore[union-attr]
    assert frame["predicted_gap"].drop(known).isna().all()
    assert frame["shape"].iloc[0] == "16x32"


def test_dependent_samples_have_an_infinite_gap_in_the_frame() -> None:
    batch = torch.randn(8, 16)
    batch[1] = batch[0]
    frame = orthoscope.diagnose(nn.Sequential(nn.Linear(16, 16), nn.Tanh()), batch).to_frame()
    assert frame["isometry_gap"].tolist() == [math.inf, math.inf]


def test_a_figure_has_a_dashed_line_of_theory_beside_the_measured_one() -> None:
    one = diagnosed()
    figure = one.plot()
    assert isinstance(figure, matplotlib.figure.Figure)
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    measured, theory = figure.axes[0].lines
    assert (measured.get_linestyle(), theory.get_linestyle()) == ("-", "--")
    assert list(measured.get_ydata()) == [layer.gap for layer in one.layers]
    known = [number.gap for layer in one.layers if (number := one.expected.of(layer)) is not None]
    assert list(theory.get_ydata()) == known
    assert [axes.get_yscale() for axes in figure.axes] == ["linear"] * 3 + ["log"] * 2
    assert figure.get_suptitle() == f"{_MATHEMATICS}: {one.verdict}"


def test_every_figure_can_be_drawn(viewed: diagnoses.document.Viewed) -> None:
    figure = viewed.plot()
    figure.canvas.draw()
    assert all(axes.lines for axes in figure.axes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "ask"),
    [("pandas", lambda one: one.to_frame()), ("polars", lambda one: one.to_frame("polars"))],
)
def test_a_library_that_is_missing_is_one_sentence(library: str, ask: object, monkeypatch: pytest.MonkeyPatch) -> None:
    one = diagnosed()
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=f"to_frame needs {library}, which is not installed: pip install"):
        ask(one)  # type: ignore[operator]
    with pytest.raises(ModuleNotFoundError, match="plot needs matplotlib, which is not installed: pip install"):
        one.plot()
    with pytest.raises(ValueError, match="a frame is made by pandas or polars, got 'excel'"):
        one.to_frame("excel")
    assert json.loads(one.to_json())["name"] == _MATHEMATICS
