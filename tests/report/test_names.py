"""Names are folded without losing one, and broken without losing a letter."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orthoscope.report.folding import folded_names, span_of, without_shared_start, wrapped

PARTS = st.lists(st.sampled_from(["layers", "h", "0", "1", "2", "10", "01", "attn", "q_proj", "a#b"]), max_size=5)
NAMES = st.lists(PARTS.map(".".join), max_size=12, unique=True)


def unfolded(text: str) -> list[str]:
    match = re.search(r"\[(\d+)–(\d+)\]", text)
    if match is None:
        return [text]
    numbers = range(int(match[1]), int(match[2]) + 1)
    return [name for number in numbers for name in unfolded(text[: match.start()] + str(number) + text[match.end() :])]


@given(NAMES)
def test_every_name_is_in_exactly_one_fold(names: list[str]) -> None:
    plain = [name for name in names if not re.search(r"(^|\.)0\d", name)]
    found = [name for text in folded_names(plain) for name in unfolded(text)]
    assert sorted(found) == sorted(plain)


def test_alike_names_are_one_and_gaps_are_not_hidden() -> None:
    names = [f"model.layers.{block}.self_attn.q_proj" for block in range(32)]
    assert folded_names([*names, "lm_head"]) == ["model.layers.[0–31].self_attn.q_proj", "lm_head"]
    assert folded_names(["h.0", "h.2"]) == ["h.0", "h.2"]
    assert folded_names(f"h.{a}.{b}" for a in range(2) for b in range(3)) == ["h.[0–1].[0–2]"]


@pytest.mark.parametrize("width", [8, 20, 33])
@given(NAMES)
def test_a_wrapped_name_keeps_every_letter(width: int, names: list[str]) -> None:
    for name in names:
        lines = wrapped(name, width).split("\n")
        assert max(map(len, lines)) <= width
        assert "".join(line.removeprefix("  ") for line in lines) == name


def test_a_span_is_what_all_names_share() -> None:
    assert span_of(["h.1.a", "h.2.b", "h.3"]) == "h.[1–3]"
    assert span_of(["h.1.a", "h.1.b"]) == "h.1"
    assert span_of(["a", "b"]) == ""


def test_a_shared_start_is_dropped_once_and_nothing_else() -> None:
    assert without_shared_start(["m.e.a", "m.d.b"]) == ("m.", ["e.a", "d.b"])
    assert without_shared_start(["m", "m.a"]) == ("", ["m", "m.a"])
    assert without_shared_start(["m.a"]) == ("", ["m.a"])
