"""Pages of every kind as a browser shows them: drawn without a complaint, read by keys, and equal to the document."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from browser.chromium import Browser
from orthoscope import report
from orthoscope.report.document import quantities
from report.changes import fix, prescription
from report.handmade import depth, prediction
from report.kinds import KINDS, dashes

Document = dict[str, Any]
HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(1)</script>\u202egnp"
FACTORS = json.loads((Path(__file__).parents[1] / "report" / "factors.json").read_text("utf-8"))
PAPER = "return getComputedStyle(document.body).backgroundColor"


def shown(browser: Browser, folder: Path, made: Document) -> Browser:
    report.write(folder / "page.html", [made])
    browser.open(folder / "page.html")
    browser.ready()
    return browser


class Shown:
    """A page and the document that it shows."""

    def __init__(self, browser: Browser, kind: str, folder: Path) -> None:
        self.browser, self.kind, self.document = browser, kind, KINDS[kind]("layer")
        self.address = (folder / "page.html").as_uri()
        shown(browser, folder, self.document)
        self.log, self.requests = browser.log(), browser.requests()


@pytest.fixture(scope="module", params=list(KINDS))
def page(request: pytest.FixtureRequest, browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    yield Shown(browser, request.param, tmp_path_factory.mktemp(request.param))
    browser.driver.set_window_size(1280, 1000)


def test_it_is_drawn_without_a_complaint_and_asks_for_nothing(page: Shown) -> None:
    assert page.log == []
    assert page.requests == [page.address]
    assert page.browser.run("return performance.getEntriesByType('resource').length") == 0
    assert page.browser.run("return document.getElementById('orthoscope-static')") is None
    assert page.browser.text("h1") == "layer"
    assert page.browser.text(".banner") != ""
    drawn = page.browser.run("return [...document.querySelectorAll('svg')].map(one => one.outerHTML).join('')")
    for word in ("NaN", "Infinity", "undefined<", "null<"):
        assert word not in drawn
    page.browser.screenshot(page.kind, 3000)
    page.browser.driver.set_window_size(1280, 1000)


def test_ids_are_unique_and_headings_skip_no_level(page: Shown) -> None:
    ids = [mark["id"] for mark in page.browser.marks("[id]", "id")]
    assert sorted(ids) == sorted(set(ids))
    levels = heading_levels(page.browser)
    assert levels[:2] == [1, 2]
    assert all(after <= before + 1 for before, after in pairwise(levels))


def heading_levels(browser: Browser) -> list[int]:
    return browser.run(
        "return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map(one => Number(one.tagName[1]))"
    )


def test_every_chart_has_a_name_and_is_read_by_arrow_keys(page: Shown) -> None:
    assert page.browser.run("return [...document.querySelectorAll('svg[role=img]')].every(one => one.ariaLabel)")
    charts = page.browser.run("return [...document.querySelectorAll('svg.chart[tabindex=\"0\"]')]")
    assert len(charts) >= (page.kind != "confirmation") + 1
    said = "return arguments[0].closest('figure').querySelector('.said').textContent"
    for chart in charts:
        page.browser.run("arguments[0].focus()", chart)
        chart.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        assert ": " in page.browser.run(said, chart)
        chart.send_keys(Keys.ESCAPE)
        assert page.browser.run(said, chart) == ""


def test_it_is_dark_in_the_dark_white_on_paper_and_fits_a_telephone(page: Shown) -> None:
    driver = page.browser.driver
    light = page.browser.run(PAPER)
    try:
        features = [{"name": "prefers-color-scheme", "value": "dark"}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        assert page.browser.run(PAPER) == "rgb(20, 22, 26)"
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
        assert page.browser.run(PAPER) == "rgb(255, 255, 255)"
        assert page.browser.run("return getComputedStyle(document.querySelector('.tools')).display") == "none"
        assert page.browser.run("return getComputedStyle(document.querySelector('h1')).color") == "rgb(0, 0, 0)"
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert page.browser.run(PAPER) == light
    narrow = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", narrow)
    try:
        assert page.browser.run("return document.documentElement.scrollWidth") == 400
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_last_download_is_the_document(page: Shown) -> None:
    page.browser.run(
        "const made = URL.createObjectURL;"
        "URL.createObjectURL = blob => { window.saved = blob; return made.call(URL, blob); };"
        "const buttons = [...document.querySelectorAll('button.download')];"
        "(buttons.find(one => one.textContent.includes('fix')) ?? buttons[0]).click()"
    )
    text = page.browser.driver.execute_async_script("window.saved.text().then(arguments[arguments.length - 1])")
    assert json.loads(text) == json.loads(json.dumps(page.document))


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_name_stays_text(browser: Browser, tmp_path: Path, kind: str) -> None:
    made = KINDS[kind](HOSTILE)
    if kind == "diagnosis":
        made["prescriptions"] = [prescription(HOSTILE, "kept")]
    shown(browser, tmp_path, made)
    if kind == "diagnosis":
        strip = browser.run("const strip = document.querySelector('.strip'); strip.focus(); return strip")
        strip.send_keys(Keys.ARROW_RIGHT)
        assert browser.text(".readout").startswith("1/3 ")
    browser.run("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    assert browser.run("return document.scripts.length") == 2
    assert browser.run("return document.querySelectorAll('img, iframe, object, link').length") == 0
    said = browser.run("return document.title + document.body.innerText")
    assert said.count("<img src=x onerror=alert(1)>") > 3
    assert "\u202e" not in said
    assert browser.log() == []  # an alert would also fail the next command


def dots(browser: Browser, figure: str, line: str = "strong") -> dict[float, float]:
    marks = browser.marks(f'[data-figure="{figure}"] circle.dot.line-{line}', "data-x", "data-value")
    return {float(mark["data-x"] or "nan"): float(mark["data-value"] or "nan") for mark in marks}


def test_a_prediction_draws_every_number_at_its_depth_and_the_mark(browser: Browser, tmp_path: Path) -> None:
    made = prediction()
    made["depths"][4]["gap"] = None
    shown(browser, tmp_path, made)
    for figure in ("gap", "overlap", "rms", "isometry_gap"):
        expected = {row["depth"]: row[figure] for row in made["depths"] if row[figure] is not None}
        assert dots(browser, figure) == pytest.approx(expected)
    path = browser.marks('[data-figure="gap"] path[data-line="theory"]', "d")[0]["d"]
    assert path is not None
    assert path.count("M") == 2  # the undefined depth leaves a gap
    assert {mark["data-marker"] for mark in browser.marks(".marker", "data-marker")} == {"20"}
    assert "at risk from depth 20" in browser.text('[data-figure="gap"]')
    assert len(browser.marks("path.band", "d")) == 1
    assert "19 of 60" in browser.text(".banner")
    cells = "return [...document.querySelectorAll('#ends tbody tr:first-child td')].map(one => one.textContent)"
    assert browser.run(cells)[1:] == ["the reason at depth 20", "20", "40"]
    assert browser.run("return document.querySelectorAll('#numbers tbody tr').length") <= 20
    browser.run("document.querySelector('.every-depth').open = true")
    browser.wait("return document.querySelectorAll('.every-depth tbody tr').length === 60")


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e308, -1e308])
def test_extreme_and_missing_numbers_are_drawn_or_left_out(browser: Browser, tmp_path: Path, value: float) -> None:
    numbers = {"rms": abs(value), "gradient_growth": value, "isometry_gap": abs(value), "overlap": value}
    depths = [depth(1), depth(2) | numbers, depth(3, gradient_growth=-value)]
    for made in (prediction(3, None, None, depths=depths), dashes()):
        shown(browser, tmp_path, made)
        assert browser.log() == []
        drawn = browser.run("return document.querySelector('main').innerHTML")
        assert "NaN" not in drawn
        assert "Infinity" not in drawn
        assert "null" not in drawn
        assert "undefined" not in drawn
    assert dots(browser, "gap") == {}


def test_the_grid_of_pairs_is_the_matrix_and_keys_read_it(browser: Browser, tmp_path: Path) -> None:
    made = KINDS["residual"]("layer")
    shown(browser, tmp_path, made)
    cells = browser.marks('[data-figure="pairs"] [data-row]', "data-row", "data-column", "data-value", "class")
    assert len(cells) == 16
    for cell in cells:
        value = made["pairs"][int(cell["data-row"] or 0)][int(cell["data-column"] or 0)]
        assert (None if cell["data-value"] is None else float(cell["data-value"])) == value
        assert (cell["class"] == "crossed") == (value is None)
    chart = browser.run("const one = document.querySelector('[data-figure=pairs]'); one.focus(); return one")
    chart.send_keys(Keys.ARROW_UP, Keys.ARROW_UP)
    assert browser.text(".heat-scale") == "0 aligned1 unrelated"
    said = browser.text("figure:has(.heatmap) .said")
    assert said == "block 2 layer.1 in the singular vectors of 1 layer.0: 0.30"
    inverse = {index + 1: 1 + index / 2 for index in range(3)}  # the last block is dead
    assert dots(browser, "inverse") == pytest.approx(inverse)
    assert "Neither good nor bad news" in browser.text(".banner")


def test_a_diagnosis_that_went_deep_has_the_same_parts(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, KINDS["diagnosis"]("layer"))
    assert len(browser.marks('#residual [data-figure="pairs"] [data-row]', "data-row")) == 16


def test_a_factor_is_written_as_in_the_terminal(browser: Browser, tmp_path: Path) -> None:
    """The growth of the gradient at every snapshot is a case of the table that the terminal's test reads."""
    made = KINDS["watch"]("layer")
    made["history"] = [
        made["history"][0] | {"step": step, "scalars": {"orthoscope/gradient_slope": case["log"]}}
        for step, case in enumerate(FACTORS)
    ]
    shown(browser, tmp_path, made)
    said = browser.run(
        "const chart = document.querySelector('[data-figure=gradient_slope]');"
        "return arguments[0].map(() => {"
        "  chart.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}));"
        "  return chart.closest('figure').querySelector('.said').textContent;"
        "})",
        FACTORS,
    )
    assert said == [f"step {step}: {case['written']}" for step, case in enumerate(FACTORS)]


def test_a_comparison_tells_before_from_after(browser: Browser, tmp_path: Path) -> None:
    shown(browser, tmp_path, KINDS["comparison"]("layer"))
    assert dots(browser, "gap", "second") == pytest.approx({1: 0.2, 2: 0.5, 3: 0.9})
    assert dots(browser, "gap", "strong") == pytest.approx({1: 0.2, 2: 0.25, 3: 0.3})
    stroke = "return getComputedStyle(document.querySelector(arguments[0])).strokeDasharray"
    assert browser.run(stroke, "path.line-second") == "5px, 3px"
    assert browser.run(stroke, "path.line-strong") == "none"
    marks = browser.marks("[data-when]", "data-when", "data-gap", "data-slope")
    places = [(mark["data-when"], mark["data-gap"], mark["data-slope"]) for mark in marks]
    assert places == [("before", "0.9", "-0.4"), ("after", "0.3", "0.01")]
    before, after = browser.run(
        "return [...document.querySelectorAll('[data-when]')].map(one => one.firstChild.getBoundingClientRect().x)"
    )
    head = browser.run("return document.querySelector('path.change-head:not(.change)').getBoundingClientRect().x")
    assert after < head < before  # to a smaller gap
    cloud = report.pages.reference_cloud()
    for known, trained in (("trained", True), ("failed", False)):
        drawn = browser.marks(f'[data-known="{known}"]', "data-gap")
        assert len(drawn) == sum(one["trained"] is trained for one in cloud)


def test_what_has_no_place_and_no_layers_is_still_compared(browser: Browser, tmp_path: Path) -> None:
    made = KINDS["comparison"]("layer")
    for when in ("before", "after"):
        made[when] |= {"gap": None, "layers": [], "quoted_layer": None}
    shown(browser, tmp_path, made | {"layers": []})
    assert browser.marks("[data-when]", "data-gap") == []
    assert browser.log() == []


@pytest.mark.parametrize("steps", [True, False])
def test_a_fix_is_the_network_what_to_change_and_what_it_did(browser: Browser, tmp_path: Path, steps: bool) -> None:
    shown(browser, tmp_path, fix("layer", steps))
    outcomes = [mark["data-outcome"] for mark in browser.marks("#prescriptions li", "data-outcome")]
    assert outcomes[0] == ("kept" if steps else "tried")
    assert "does not apply: no branches" not in outcomes
    assert browser.run("return document.querySelector('#prescriptions').nextElementSibling.id") == "change"
    assert len(browser.marks("#change [data-when]", "data-when")) == 2 * steps
    if steps:
        kept = browser.text("#prescriptions li[data-outcome=kept]")
        for words in ("mend layer", "gap 0.31, gradient ×1.01", "gap 0.30, gradient ×1.01", "mend(model"):
            assert words in kept
        assert "fixed by mend layer → HEALTHY" in browser.text(".banner")
        assert browser.text("#change pre") == "import orthoscope\nmend(model, 'layer')"
    else:
        assert "nothing was changed" in browser.text("#change")


def test_a_confirmation_draws_every_loss_until_it_diverges(browser: Browser, tmp_path: Path) -> None:
    made = KINDS["confirmation"]("layer")
    shown(browser, tmp_path, made)
    lines = {mark["data-line"]: mark["d"] or "" for mark in browser.marks("[data-line]", "data-line", "d")}
    rates = [f"learning rate {rate}" for rate in ("0.01", "0.001", "0.0001")]
    assert set(lines) == {*rates, "best constant output", "reference"}
    assert [lines[rate].count("L") for rate in rates] == [1, 3, 3]
    assert "diverged" in browser.text("#rates")


def test_a_watch_draws_every_snapshot_and_the_latest_update(browser: Browser, tmp_path: Path) -> None:
    made = KINDS["watch"]("layer")
    shown(browser, tmp_path, made)
    for figure in ("worst_gap", "gradient_slope"):
        name = f"orthoscope/{figure}"
        expected = {row["step"]: row["scalars"][name] for row in made["history"] if name in row["scalars"]}
        assert dots(browser, figure) == pytest.approx(expected)
    cells = browser.run("return [...document.querySelectorAll('#updates tbody td')].map(one => one.textContent)")
    assert cells[:4] == ["8", "layer", "4×3", "0.010"]
    read = {one.key: cell for one, cell in zip(quantities("update"), cells[3:], strict=True)}
    assert (read["independence_change"], read["angle_change"]) == ("+0.0100", "0.0200")  # a sign, four decimals
    assert read["effective_rank"] == "2.5 of 3"
    assert dots(browser, "loss") == pytest.approx(
        {one["step"]: one["loss"] for one in made["losses"] if one["step"] != 5}
    )
    assert "learning rate, after 7 steps: layer" in browser.text("#warnings")
    assert "The last healthy snapshot was taken after 2 steps." in browser.text("#warnings")
    assert "AT RISK" in browser.text(".banner")
    assert "failures1" in browser.text(".facts")  # a logger that failed is no snapshot


def test_a_watch_draws_the_last_snapshot_or_the_last_healthy_one(browser: Browser, tmp_path: Path) -> None:
    drawn = "return document.querySelectorAll('article article[data-ready] #checks').length"
    shown(browser, tmp_path, KINDS["watch"]("layer"))
    titles = "return [...document.querySelectorAll('h2')].map(one => one.textContent)"
    assert browser.wait(drawn) == 1
    assert "The last snapshot" in browser.run(titles)
    browser.click("[data-snapshot='1']")
    assert browser.wait(drawn) == 1
    assert "The last snapshot" not in browser.run(titles)
    assert "The last healthy snapshot: after 2 steps" in browser.run(titles)
