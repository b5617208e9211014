"""Pages of a fix and of a comparison, as a browser shows them."""

from pathlib import Path

import pytest

from browser.chromium import Browser
from orthoscope import report
from report.changes import comparison, fix

HOSTILE = "<script>alert(1)</script>"


@pytest.mark.parametrize("name", ["layer", HOSTILE])
def test_a_fix_is_the_network_what_to_change_and_what_it_did(browser: Browser, tmp_path: Path, name: str) -> None:
    report.write(tmp_path / "fix.html", [fix(name)])
    browser.open(tmp_path / "fix.html")
    browser.ready()
    assert [mark["data-outcome"] for mark in browser.marks("#prescriptions li", "data-outcome")] == [
        "kept",
        "tried",
        "not tried",
    ]
    kept = browser.text("#prescriptions li[data-outcome=kept]")
    for words in (name, "kept", "gap 0.31, gradient ×1.012", "gap 0.30, gradient ×1.010", "mend(model"):
        assert words in kept
    assert f"mended by mend {name} → HEALTHY" in browser.text(".banner")
    assert browser.run("return document.querySelector('#prescriptions').nextElementSibling.id") == "change"
    assert name in browser.text("#change pre")
    assert len(browser.marks("#change [data-when]", "data-when")) == 2
    assert browser.log() == []
    assert browser.requests() == [(tmp_path / "fix.html").as_uri()]
    if name != HOSTILE:
        browser.screenshot("fix", 4600)
        browser.driver.set_window_size(1280, 1000)


def test_a_comparison_is_drawn_without_a_script_and_without_a_complaint(browser: Browser, tmp_path: Path) -> None:
    report.write(tmp_path / "comparison.html", [comparison(HOSTILE)])
    browser.open(tmp_path / "comparison.html")
    assert browser.text("h1") == HOSTILE
    assert browser.run("return document.scripts.length") == 0
    assert "SICK" in browser.text(".banner")
    assert "HEALTHY" in browser.text(".banner")
    stroke = "return getComputedStyle(document.querySelector(arguments[0])).strokeDasharray"
    assert browser.run(stroke, "polyline.line-second") == "5px, 3px"
    assert browser.run(stroke, "polyline.line-strong") == "none"
    before, after = browser.run(
        "return [...document.querySelectorAll('[data-when]')].map(one => one.firstChild.getBoundingClientRect().x)"
    )
    head = browser.run("return document.querySelector('.change-head').getBoundingClientRect().x")
    assert after < head < before  # to a smaller gap
    assert browser.log() == []
    assert browser.requests() == [(tmp_path / "comparison.html").as_uri()]
    browser.screenshot("comparison", 2400)
    browser.driver.set_window_size(1280, 1000)
