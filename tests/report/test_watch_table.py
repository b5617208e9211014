"""The table of a watch in terminals of several widths: whole numbers, whole headings, names that differ."""

from typing import Any

import pytest

from orthoscope.report.document import WatchDocument, from_data, quantities
from orthoscope.report.watch_terminal import watch_table
from report.handmade import ENVIRONMENT

HEADINGS = ["weight", "step", "shape", *(quantity.short for quantity in quantities("update"))]
NAMES = [f"transformer.h.{block}.attn.c_attn.weight[{part}]" for block in (0, 11) for part in range(3)]
NAMES += ["transformer.h.0.mlp.c_fc.weight", "head.weight"]


def document(names: list[str], steps: int = 2) -> WatchDocument:
    """As `Watch.document` gives it, with numbers as wide as they get."""
    numbers = {
        "gradient_norm": 1.2e-12,
        "relative_size": 1.2e-3,
        "rms_operator_norm": 1.2e-13,
        "effective_rank": 2047.4,
        "semi_orthogonality_defect": 0.987,
        "update_alignment": -0.123,
        "independence": 0.1234,
        "independence_change": -0.1234,
        "angle_change": 0.1234,
        **dict.fromkeys(("weight_norm", "update_norm", "relative_spectral_size", "stable_rank")),
        **dict.fromkeys(("left_share", "right_share", "conformality_defect")),
        "spectrum": [None] * 5,
    }
    rows = [
        {"step": 100_000 + step, "optimizer": "Muon", "weight": name, "shape": [11008, 4096], **numbers}
        for step in range(steps)
        for name in names
    ]
    empty: dict[str, Any] = {name: [] for name in ("history", "skipped", "problems", "losses", "warnings")}
    plain = {"name": "GPT", "every": 1, "steps": steps, "rows": rows, "latest": None, "stopped": None, **empty}
    plain |= {"last_healthy_step": None, "guessing": None}
    return from_data(WatchDocument, {"schema": WatchDocument.schema, "environment": ENVIRONMENT, **plain})


def shown(monkeypatch: pytest.MonkeyPatch, columns: int, names: list[str] = NAMES) -> tuple[list[list[str]], list[str]]:
    """Headings and cells of every line, and the lines below the table."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = watch_table(document(names)).splitlines()
    assert set(lines[2]) == {"─"}
    end = 3 + len(names)
    return [line.split() for line in (lines[1], *lines[3:end])], lines[end:]


@pytest.mark.parametrize("columns", [30, 80, 110, 160])
def test_columns_are_left_out_whole_and_no_digit_or_heading_is_cut(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    every, _ = shown(monkeypatch, 1000)
    assert every[0] == HEADINGS
    table, below = shown(monkeypatch, columns)
    kept = [HEADINGS.index(heading) for heading in table[0]]
    for full, cells in zip(every, table, strict=True):
        assert cells[1:] == [full[index] for index in kept[1:]]
        assert not any("…" in cell for cell in cells[1:])
    missing = [heading for heading in HEADINGS if heading not in table[0]]
    assert (f"no room for: {', '.join(missing)}" in below) == bool(missing)
    assert len(kept) == {30: 3, 80: 5, 110: 8, 160: 12}[columns]


@pytest.mark.parametrize("columns", [80, 110, 160])
def test_no_line_of_the_table_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, watch_table(document(NAMES)).splitlines())) <= columns


@pytest.mark.parametrize("columns", [30, 80, 110])
def test_no_part_of_a_name_is_cut(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    table, _ = shown(monkeypatch, columns)
    assert [cells[0] for cells in table[1:]] == NAMES


def test_what_all_names_begin_with_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    end = "layers.10.self_attention.projection.weight"
    monkeypatch.setenv("COLUMNS", "110")
    text = watch_table(document([f"model.encoder.{end}", "model.decoder." + "x" * 90]))
    assert "weight of model." in text
    assert text.count("x") == 90  # over several lines, whole


def test_a_legend_explains_the_columns_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    uneven, independence = "uneven: unevenness of the update", "PII: mean absolute cosine of two rows"
    assert {uneven, independence} <= set(" ".join(shown(monkeypatch, 160)[1]).split("; "))
    assert not any("uneven:" in line for line in shown(monkeypatch, 30)[1])


def test_one_step_is_not_steps() -> None:
    assert watch_table(document(NAMES, 1)).startswith("updates of GPT: 1 recorded step, every 1\n")
    assert watch_table(document(NAMES, 2)).startswith("updates of GPT: 2 recorded steps, every 1\n")
