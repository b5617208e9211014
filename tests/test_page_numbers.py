"""Numbers that documentation pages quote in their sentences are those of committed results, or of the library."""

import json
import math
from pathlib import Path

import pytest

from orthoscope.linalg import METHODS
from orthoscope_papers.calibration.records import Signs
from orthoscope_papers.evidence import student_interval
from orthoscope_papers.ju2025 import copying
from orthoscope_papers.results import read_table

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"


def prose(name: str) -> str:
    """The text of a page, on one line."""
    return " ".join((ROOT / "docs" / name).read_text().split())


def benchmark(name: str) -> dict[str, list[dict[str, float]]]:
    return json.loads((RESULTS / f"benchmarks/{name}.json").read_text())


def test_the_gain_of_muon_over_adamw_on_the_text() -> None:
    found = [row["difference"] for row in benchmark("gradients")["training"] if row["task"] == "Transformer, text"]
    muons = found[:2]
    low, high = (f"{abs(sum(ends) / len(ends)):.1f}" for ends in zip(*muons, strict=True))
    assert f"both Muons end {high} to {low} nats per character below AdamW" in prose("muon.md")


@pytest.mark.parametrize("name", ["polar_express", "keller"])
def test_the_singular_values_that_a_method_leaves(name: str) -> None:
    low, high = METHODS[name].image
    row = next(line for line in (ROOT / "docs/muon.md").read_text().splitlines() if line.startswith(f"| `{name}`"))
    assert f"between {low} and {high}" in row


def test_the_loss_of_an_unconstrained_weight_beside_its_orthogonal_twin() -> None:
    rows = read_table(RESULTS / "ju2025/copying", copying.Row)
    rate = sorted({row.recurrent_rate for row in rows})[1]

    def interval(span: str) -> str:
        _, low, high = student_interval(copying.log_advantages(rows, rate, span))
        return f"{math.exp(low):.1f} to {math.exp(high):.1f} times"

    text = prose("orthogonal_layers.md")
    assert f"over the second half of the steps is {interval('second half of the steps')}" in text
    assert f"over the last twenty steps {interval('last row')}" in text
    assert len({row.seed for row in rows}) == 12
    assert "twelve seeds" in text


def test_the_cost_of_a_watch() -> None:
    numbers = benchmark("watch")
    for row in numbers["looks"]:
        assert (row["looked_at"] - row["plain"]) / row["plain"] / numbers["every"] < 0.01
    assert f"under 1 % of a training with `every={numbers['every']}`" in prose("watch.md")


def test_the_warnings_of_a_watch() -> None:
    numbers = benchmark("watch_warnings")
    optimizers = {"sgd": "SGD with momentum", "adamw": "AdamW"}
    loops = {"plain": "plain", "trainer": "`Trainer`", "lightning": "Lightning"}
    text = prose("watch.md")
    for row in numbers["counts"]:
        names = f"| {loops[row['loop']]} | {optimizers[row['optimizer']]} |"
        passed, in_time, alarms = (row[name] for name in ("passed guessing", "warned in time", "false alarms"))
        assert f"{names} {passed} of {row['seeds']} | {in_time} | {alarms} of {row['healthy']} |" in text
        assert (in_time >= 9, alarms) == (True, 0)
    mine = [row for row in numbers["rows"] if not row["healthy"] and row["warned"] is not None]
    assert sum(row["warned"] <= row["passed"] for row in mine if row["passed"] is not None) == sum(
        row["warned in time"] for row in numbers["counts"]
    )


def test_the_networks_that_trained_although_a_limit_without_calibration_called_them_sick() -> None:
    called = [row for row in read_table(RESULTS / "calibration/verdict", Signs) if row.otherwise_sick]
    assert sum(row.trains for row in called) == 1
    assert f"Of the {len(called)} networks of the calibration that one of them calls sick, one trained." in prose(
        "method.md"
    )
