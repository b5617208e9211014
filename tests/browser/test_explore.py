"""The live page in a browser: sliders that move curves, a network that is diagnosed, a log that grows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.chromium import Browser
from live.explorer import Explorer, exploring
from report.handmade import document, layer

DRAWN = (
    "const curves = document.getElementById('curves');"
    "return curves && curves.dataset.all && !('busy' in curves.dataset)"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run") / "run.jsonl"


@pytest.fixture(scope="module")
def explorer(log: Path) -> Iterator[Explorer]:
    with exploring("--follow", str(log)) as running:
        yield running


def curve(browser: Browser, name: str) -> tuple[str, float]:
    (mark,) = browser.marks(f'[data-curve="{name}"]', "data-end")
    (path,) = browser.marks(f'[data-curve="{name}"] path[data-line="{name}"]', "d")
    return path["d"], float(mark["data-end"])


def move(browser: Browser, slider: str, value: float | str) -> None:
    browser.run(
        "const control = document.getElementById(arguments[0]); control.value = arguments[1];"
        "control.dispatchEvent(new Event('input', {bubbles: true}))",
        slider,
        str(value),
    )
    browser.wait(DRAWN)


def test_sliders_move_the_curves_of_theory(browser: Browser, explorer: Explorer) -> None:
    browser.open(explorer.url)
    browser.wait(DRAWN)
    move(browser, "depth", 8)
    before = {name: curve(browser, name) for name in ("overlap", "gap", "rank", "rms", "gradient")}
    move(browser, "weight_gain", 1.2)
    after = {name: curve(browser, name) for name in before}
    # ReLU is homogeneous: weights that are larger by 1.2 change sizes by 1.2 a layer, and no angle.
    assert after["rms"][1] == pytest.approx(before["rms"][1] * 1.2**8, rel=1e-6)
    assert after["rms"][0] != before["rms"][0]
    assert after["overlap"][1] == pytest.approx(before["overlap"][1], rel=1e-6)
    move(browser, "activation", "tanh")
    assert curve(browser, "overlap")[1] < before["overlap"][1] / 2
    assert "HEALTHY" in browser.text("#forecast")
    assert [line for line in browser.log() if "favicon" not in line] == []


def test_a_network_is_diagnosed_and_drawn_by_the_same_viewer(browser: Browser, explorer: Explorer) -> None:
    browser.open(explorer.url)
    browser.wait(DRAWN)
    move(browser, "depth", 4)
    browser.click("#measure")
    browser.ready()
    assert "depth=4" in browser.text("h1")
    browser.click('.cell[data-layer="2"]')
    assert browser.wait("return document.querySelector('#card h4').textContent") == "layers.1.linear"
    browser.click("#card nav button:last-child")
    browser.screenshot("explore", 2200)
    browser.driver.set_window_size(1280, 1000)
    assert all(url.startswith(f"http://{explorer.address}/") for url in browser.requests())


def test_a_growing_log_is_followed(browser: Browser, explorer: Explorer, log: Path) -> None:
    browser.open(explorer.url)
    for step in (0, 200, 400):
        diagnosis = document([layer(f"at step {step}", 1)]) | {"name": "<b>net</b>"}
        with log.open("a") as file:
            record = {
                "step": step,
                "name": "net",
                "scalars": {"orthoscope/worst_gap": 0.1 + step / 1000},
                "diagnosis": diagnosis,
            }
            file.write(json.dumps(record) + "\n")
        browser.wait(
            "return document.querySelector('#following .status').textContent.includes(arguments[0])", f"step {step} "
        )
    assert browser.marks("[data-scalar]", "data-scalar", "data-points") == [
        {"data-scalar": "orthoscope/worst_gap", "data-points": "3"}
    ]
    browser.ready()
    assert browser.text("h1") == "<b>net</b>"
    browser.click(".cell")
    assert browser.text("#card h4") == "at step 400"
    browser.open(explorer.url)  # a page that comes late sees the whole log
    browser.wait("return document.querySelector('[data-points=\"3\"]')")
    browser.screenshot("following")
