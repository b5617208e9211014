"""The live page in a browser: sliders that move curves, a network that is diagnosed, a log that grows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.chromium import Browser
from live.explorer import Explorer, exploring
from orthoscope.diagnosis import predict
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
    before = {name: curve(browser, name) for name in ("overlap", "gap", "effective_rank", "rms", "gradient_norm")}
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


def test_the_verdict_and_the_deepest_trainable_network_are_beside_the_sliders(
    browser: Browser, explorer: Explorer
) -> None:
    browser.open(explorer.url)
    browser.wait(DRAWN)
    move(browser, "depth", 60)
    deepest = predict("mlp(depth=1..60, width=128)", samples=64).deepest
    assert deepest is not None
    assert browser.text("#forecast").startswith("SICK at this depth: ")
    assert f"train up to depth {deepest}; deeper: rank collapse" in browser.text("#reach")
    assert {mark["data-deepest"] for mark in browser.marks("#curves line.marker", "data-deepest")} == {str(deepest)}
    browser.click("#deepest")
    browser.wait(DRAWN)
    assert browser.run("return document.getElementById('depth').value") == str(deepest)
    assert browser.text("#forecast").startswith("HEALTHY at this depth: ")
    for name in ("overlap", "gap", "effective_rank", "rms", "gradient_norm"):
        words = browser.run(
            "const names = document.querySelectorAll(`[data-curve=${arguments[0]}] .unit`);"
            "return [...names].map(one => one.textContent)",
            name,
        )
        assert len(words) == 2, "both axes have a name"
        assert "depth (hidden layers)" in words
    assert "theory, this setting" in browser.text("#curves-legend")


def test_settings_are_kept_and_restored(browser: Browser, explorer: Explorer) -> None:
    browser.open(explorer.url)
    browser.wait(DRAWN)
    move(browser, "depth", 8)
    before = curve(browser, "overlap")
    browser.click("#keep")
    browser.click("#keep")  # once is enough
    assert len(browser.marks("#kept li", "class")) == 1
    assert browser.marks('[data-line="kept 0"]', "d") == []  # it is the current one
    move(browser, "activation", "tanh")
    (kept,) = browser.marks('[data-curve="overlap"] path[data-line="kept 0"]', "d", "class")
    assert kept["d"] == before[0]
    assert "kept-0" in str(kept["class"])
    assert "relu, he, depth 8, trains up to depth " in browser.text("#kept")
    browser.click("#kept button")
    browser.wait(DRAWN)
    assert browser.run("return document.getElementById('activation').value") == "relu"
    assert curve(browser, "overlap") == before
    browser.click("#kept .drop")
    assert browser.marks("#kept li", "class") == []


def test_what_a_built_network_measures_is_drawn_over_its_prediction(browser: Browser, explorer: Explorer) -> None:
    browser.open(explorer.url)
    browser.wait(DRAWN)
    move(browser, "depth", 5)
    move(browser, "samples", 32)
    browser.click("#measure")
    browser.ready()
    document = json.loads(
        browser.run(
            "let saved; URL.createObjectURL = blob => { saved = blob; return '#'; };"
            "document.querySelector('button.download').click(); return saved.text()"
        )
    )
    hidden = {f"layers.{place}" for place in range(5)}
    outputs = [row for row in document["layers"] if {row["name"], *row["also"]} & hidden]
    assert len(outputs) == 5
    dots = browser.marks('[data-curve="overlap"] circle', "data-layer", "data-value", "cx", "cy")
    measured = [row["sample_view"]["overlap"] for row in outputs]
    assert [float(dot["data-value"]) for dot in dots] == pytest.approx(measured)
    # Drawn where theory has its number for the same layer.
    theory = [tuple(map(float, point.split(","))) for point in curve(browser, "overlap")[0][1:].split("L")]
    for dot, (x, y), row in zip(dots, theory, outputs, strict=True):
        assert float(dot["cx"]) == pytest.approx(x, abs=0.11)
        error = row["sample_view"]["overlap"] - row["predicted"]["overlap"]
        assert y - float(dot["cy"]) == pytest.approx(error * (190 - 36 - 10), abs=0.2)
    gradients = browser.marks('[data-curve="gradient_norm"] circle', "data-value")
    norms = [row["gradient_norm"] for row in document["layers"] if row["depth"] is not None]
    assert [float(dot["data-value"]) for dot in gradients] == pytest.approx([norm / norms[-1] for norm in norms[:-1]])
    move(browser, "weight_gain", 1.2)
    assert browser.marks('[data-curve="overlap"] circle', "cx") == []  # not of this network


def test_a_network_is_diagnosed_and_drawn_by_the_same_viewer(browser: Browser, explorer: Explorer) -> None:
    browser.open(explorer.url)
    browser.wait(DRAWN)
    move(browser, "depth", 4)
    browser.click("#measure")
    browser.ready()
    assert "depth=4" in browser.text("h1")
    browser.click('.cell[data-layer="2"]')
    assert browser.wait("return document.querySelector('#card h3').textContent") == "layers.1.linear"
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
    assert browser.text("#card h3") == "at step 400"
    browser.open(explorer.url)  # a page that comes late sees the whole log
    browser.wait("return document.querySelector('[data-points=\"3\"]')")
    browser.screenshot("following")
