import pytest

from orthoscope.report.depth_curves import place, pointer, sparkline


def test_a_curve_climbs_through_all_heights() -> None:
    assert sparkline(list(range(8)), 0, 7, 80) == "▁▂▃▄▅▆▇█"


def test_what_is_undefined_is_blank_and_what_is_beyond_is_cut() -> None:
    assert sparkline([None, -5, 0.5, 9, None], 0, 1, 80) == " ▁▅█ "


def test_a_constant_without_a_range_lies_in_the_middle() -> None:
    assert sparkline([2.0, 2.0], 2.0, 2.0, 80) == "▅▅"


@pytest.mark.parametrize("count", [1, 2, 39, 40, 41, 2000])
def test_thinned_curves_keep_both_ends(count: int) -> None:
    line = sparkline([0.0, *[0.5] * (count - 2), 1.0][-count:], 0, 1, 40)
    assert len(line) == min(40, count)
    assert line[-1] == "█"
    assert line[0] == ("▁" if count > 1 else "█")


def test_places_span_the_whole_range_in_order() -> None:
    places = [place(index, 500, 40) for index in range(500)]
    assert places[0] == 0
    assert places[-1] == 39
    assert places == sorted(places)
    assert set(places) == set(range(40))
    assert place(0, 1, 1) == 0


@pytest.mark.parametrize("column", range(40))
@pytest.mark.parametrize("sentence", ["at risk from depth 1234, sick from 1300", "at risk from 12", "1"])
def test_a_pointer_is_under_its_column_and_fits(column: int, sentence: str) -> None:
    line = pointer(column, 40, [sentence])
    assert line.index("▲") == column
    assert len(line) <= 40
    assert sentence in line or len(sentence) + 2 > max(40 - column, column + 1)


def test_a_pointer_prefers_the_longer_sentence() -> None:
    assert pointer(0, 40, ["a long sentence", "short"]) == "▲ a long sentence"
    assert pointer(8, 12, ["a long sentence", "short"]) == "  short ▲"
