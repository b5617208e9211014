import math
from io import StringIO
from itertools import pairwise
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from orthoscope import report
from orthoscope.report.document import PredictionDocument, from_data
from orthoscope.report.prediction_terminal import checks_that_found, deepest_of, shown_depths
from report.handmade import NUMBERS, depth, prediction, unknown_prediction

PREDICTIONS = {
    "usual": prediction(),
    "deep": prediction(2000, 800, 1200),
    "healthy": prediction(500, None, None),
    "sick at once": prediction(60, 1, 1),
    "one depth": prediction(1, None, None),
    "one sick depth": prediction(7, 7, 7, first=7),
    "unknown": unknown_prediction(),
    "one unknown depth": unknown_prediction(1),
}
ANY = pytest.mark.parametrize("made", PREDICTIONS.values(), ids=PREDICTIONS)


def read(made: dict[str, Any]) -> PredictionDocument:
    return from_data(PredictionDocument, made)


def rendered(made: dict[str, Any], width: int) -> list[str]:
    file = StringIO()
    Console(file=file, width=width, color_system=None).print(report.terminal(made))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def table(lines: list[str]) -> list[str]:
    """The rows of numbers, without their arrow."""
    start = next(index for index, line in enumerate(lines) if line.startswith("───"))
    rows = lines[start + 1 : lines.index("", start)]
    return [row.replace("→", " ") for row in rows]


def test_the_deepest_network_that_trains_comes_first_and_the_sentence_with_it() -> None:
    assert rendered(prediction(), 80)[0].split("  ") == ["DEEPEST", "", "", "19 of 60", "trains as far as it does"]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (prediction(500, None, None), "500 of 500"),
        (prediction(500, 38, None), "37 of 500"),
        (prediction(60, 1, 20), "none of 60"),
        (prediction(7, None, None, first=7), "7 of 7"),
    ],
)
def test_the_headline_says_how_deep_of_what_was_asked(made: dict[str, Any], words: str) -> None:
    assert deepest_of(read(made)) == words


def test_the_facts_say_that_nothing_was_measured() -> None:
    words = " ".join(" ".join(rendered(prediction(), 80)).split())
    assert "network mlp(depth=1..60) · 16 samples · width 32 · mean cosine of the inputs 0.00" in words
    assert "predicted, not measured, in 0.1 s" in words


@pytest.mark.slow
@ANY
@pytest.mark.parametrize("width", [50, 72, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_nothing_reads_as_code(made: dict[str, Any], width: int) -> None:
    lines = rendered(made, width)
    assert max(cell_len(line) for line in lines) <= width
    assert not any(word in " ".join(lines) for word in ("None", "nan", "{", "}"))


@ANY
def test_shown_depths_are_a_screenful_in_order_with_ends_and_turning_points(made: dict[str, Any]) -> None:
    shown = [row.depth for row in shown_depths(read(made))]
    assert shown == sorted(set(shown))
    assert shown[0] == made["depths"][0]["depth"]
    assert shown[-1] == made["depths"][-1]["depth"]
    assert {made["deepest"], made["at_risk_from"], made["sick_from"]} - {None} <= set(shown)
    assert min(12, len(made["depths"])) <= len(shown) <= 16


@pytest.mark.parametrize("last", range(17, 400, 7))
@pytest.mark.parametrize("turn", [2, 5, 17])
def test_any_range_gives_a_screenful(last: int, turn: int) -> None:
    assert 12 <= len(shown_depths(read(prediction(last, turn, turn)))) <= 16


def test_depths_are_denser_at_the_beginning() -> None:
    shown = [row.depth for row in shown_depths(read(prediction(1000, None, None)))]
    ratios = [later / earlier for earlier, later in pairwise(shown) if earlier > 8]
    assert max(ratios) / min(ratios) < 1.2  # equal ratios, up to whole numbers


def test_no_number_of_the_table_is_cut_at_80_columns() -> None:
    row = depth(1, rms=1.25e-30, overlap_deviation=0.25, gap=0.25, isometry_gap=123456.0, gradient_growth=-1234.5)
    (line,) = table(rendered(prediction(1, None, None, depths=[row]), 80))
    expected = ["1", "0.25", "16/16", "0.500", "±", "0.250", "1.2e-30", "1.2e5", "×10⁻⁵³⁶", "HEALTHY"]
    assert line.split() == expected


def test_the_arrow_is_where_it_stops_being_healthy() -> None:
    (marked,) = [line for line in rendered(prediction(), 80) if "→" in line]
    assert marked.split()[1] == "20"
    assert "AT RISK" in marked


def test_narrow_terminals_drop_numbers_and_wide_ones_name_symptoms() -> None:
    heads = {
        width: next(line for line in rendered(prediction(), width) if "verdict" in line) for width in (60, 80, 110)
    }
    assert "rms" not in heads[60]
    assert "rms" in heads[80]
    assert "symptoms" not in heads[80]
    assert "symptoms" in heads[110]
    assert "SICK     rank collapse" in "\n".join(rendered(prediction(), 110))


def curve(lines: list[str], name: str) -> str:
    return next(line for line in lines if line.startswith(name + " ") and set(line) & set("▁▂▃▄▅▆▇█"))


def test_curves_have_their_ends_in_numbers() -> None:
    lines = rendered(prediction(), 80)
    assert curve(lines, "cos").split()[1::2] == ["0.50", "0.98"]
    assert curve(lines, "gap").split()[1::2] == ["0.75", "1.00"]
    assert curve(lines, "growth").split()[1::2] == ["×1.01", "×1.8"]
    ranks = curve(lines, "rank (log)").split()
    assert ranks[2::2] == ["16", "1.2"]
    assert ranks[3][0] == "█"
    assert ranks[3] == "".join(sorted(ranks[3], reverse=True))  # falls all the way


@pytest.mark.parametrize("width", [60, 80, 130])
def test_the_mark_is_under_the_depth_where_it_stops_being_healthy(width: int) -> None:
    made = prediction(40, 20, 30)  # no more depths than blocks at 80 columns
    for row in made["depths"]:
        row["overlap"] = float(row["depth"] >= made["at_risk_from"])
    lines = rendered(made, width)
    mark = next(line for line in lines if "▲" in line)
    assert curve(lines, "cos").index("█") == mark.index("▲")
    assert "at risk from" in mark


def test_a_healthy_range_has_no_mark() -> None:
    assert not any("▲" in line or "→" in line for line in rendered(PREDICTIONS["healthy"], 80))


def test_sick_from_the_beginning_is_one_statement() -> None:
    (mark,) = [line for line in rendered(PREDICTIONS["sick at once"], 80) if "▲" in line]
    assert mark.split() == ["▲", "sick", "from", "depth", "1"]


def test_limits_and_hypotheses_are_told() -> None:
    lines = rendered(prediction(), 100)
    assert "limits       overlap 0.76 at infinite depth (mean cosine), by poole2016, equation (3)" in lines
    assert "theorems     poole2016, equation (3), assuming infinite width" in lines
    assert "limits       overlap – at infinite depth, by poole2016, equation (3)" in rendered(unknown_prediction(), 100)


def test_a_limit_of_growth_is_a_factor() -> None:
    made = prediction()
    made["limit"][0] |= {"name": "gradient growth", "value": math.log(1.5), "unit": "e-folds per layer"}
    assert "limits       gradient growth ×1.5 per layer at infinite depth, by poole2016, equation (3)" in rendered(
        made, 100
    )


def test_what_is_unknown_is_a_dash() -> None:
    lines = rendered(unknown_prediction(1), 80)
    assert table(lines)[0].split() == ["1", *["–"] * (len(NUMBERS) - 1), "HEALTHY"]
    assert not any(set(line) & set("▁▂▃▄▅▆▇█") for line in lines)


def test_text_is_the_same_view() -> None:
    assert report.text(prediction()).startswith("DEEPEST")
    assert "\x1b" not in report.text(prediction())


def test_names_cannot_steer_the_terminal() -> None:
    hostile = "[bold]x[/nonsense]\x1b[31m\x07\u202e\ud800"
    statement = {"source": hostile, "assumes": hostile}
    row = depth(1, "SICK")
    row["findings"][0] |= {"check": hostile, "reason": hostile}
    limit = {"name": hostile, "value": 0.1, "unit": hostile, **statement}
    made = prediction(1, 1, 1, name=hostile, summary=hostile, sources=[statement], limit=[limit], depths=[row])
    shown = "\n".join(rendered(made, 110))
    assert shown.count("[bold]x[/nonsense]") == 7  # name, summary, three of the limit, two of the source
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(shown)


def test_checks_that_find_something_are_named() -> None:
    assert checks_that_found(read(prediction())) == ["sample rank"]
    assert checks_that_found(read(PREDICTIONS["healthy"])) == []
