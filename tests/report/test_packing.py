import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orthoscope.report.viewer import packed, script_json
from report.handmade import document, layer

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=20,
)


def unpacked(value):
    """The inverse, as the viewer has it."""
    if isinstance(value, list):
        return [unpacked(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if "$table" not in value:
        return {key: unpacked(inner) for key, inner in value.items()}
    rows = [None if index in value.get("nulls", []) else {} for index in range(value["$table"])]
    present = [row for row in rows if row is not None]
    for key, column in value["columns"].items():
        for index, inner in enumerate(unpacked(column["values"])):
            present[column["at"][index] if "at" in column else index][key] = inner
    return rows


@given(VALUES)
def test_nothing_is_lost(value):
    assert unpacked(packed(value)) == value


@pytest.mark.slow
def test_keys_of_a_thousand_layers_are_written_once():
    text = json.dumps(packed(document([layer(str(n)) for n in range(1000)])))
    assert text.count('"effective_rank"') == 2  # of the input, and of all layers
    assert unpacked(json.loads(text)) == document([layer(str(n)) for n in range(1000)])


def test_data_cannot_end_the_script_element_that_holds_it():
    text = script_json(["</script><script>alert(1)</script>", "<!--", "\ud800"])
    assert "<" not in text
    assert json.loads(text)[0] == "</script><script>alert(1)</script>"
    text.encode("utf-8")
