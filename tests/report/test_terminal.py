from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from orthoscope import report
from report.handmade import document, finding, layer, sequential, transformer, undefined_layer


def rendered(renderable, width):
    file = StringIO()
    Console(file=file, width=width, color_system=None).print(renderable)
    return file.getvalue()


def test_the_verdict_comes_first_and_needs_no_color():
    first_line = report.text(document(sick_at="4")).splitlines()[0]
    assert first_line.split() == ["VERDICT", "SICK", *["representations", "collapse", "from", "4", "on"]]


def test_the_first_sick_layer_has_an_arrow_and_its_symptom():
    marked = [line for line in report.text(document(sequential(20), sick_at="12")).splitlines() if "→" in line]
    assert len(marked) == 1
    assert marked[0].split()[1] == "12"
    assert "rank collapse" in marked[0]


@pytest.mark.parametrize("width", [80, 110, 200])
@pytest.mark.parametrize("layers", [sequential(40), transformer(12), [], [layer("x" * 300)]], ids=len)
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(width, layers):
    lines = rendered(report.terminal(document(layers)), width).splitlines()
    assert max(cell_len(line) for line in lines) <= width
    for line in lines:
        if "12/16" in line:
            assert {"0.30", "0.25", "1.00", "0.50"} <= set(line.split())
    assert sum("12/16" in line for line in lines) >= min(len(layers), 2)


def test_at_80_columns_a_rank_deficient_layer_is_named_whole():
    view = document()["layers"][0]["sample_view"] | {"isometry_gap": None}
    layers = [*sequential(3), layer("head", 4, rank_deficient=True, sample_view=view)]
    rows = [line for line in rendered(report.terminal(document(layers)), 80).splitlines() if "head" in line]
    row = rows[-1]
    assert "rank-deficient" in row
    assert "inf" not in row
    assert "None" not in row


def test_the_deficient_flag_wins_over_a_number():
    text = report.text(document([layer("a", 1, rank_deficient=True)]))
    assert "rank-deficient" in text
    assert "1.20" not in text


def test_a_thousand_layers_fit_on_one_screen():
    for layers in (sequential(500), transformer(150)):
        assert len(report.text(document(layers, sick_at=layers[70]["name"])).splitlines()) <= 45


def test_the_three_states_are_told_apart():
    text = report.text(document(sick_at="4"))
    assert "found        SICK  sample rank: the reason of sample rank; limit 2.5%" in text
    assert "clean        live layers" in text
    assert "not checked  token rank: there are no tokens" in text


def test_unobserved_modules_and_notes_are_told():
    unobserved = [{"name": f"module{index}", "reason": "never called"} for index in range(9)]
    text = report.text(document(unobserved=unobserved, notes=["dropout was on"]))
    assert "9 modules: module[0–8]" in text
    assert "dropout was on" in text


def test_undefined_numbers_read_as_dashes():
    slope = {"value": None, "standard_error": None, "layers": 0, "unit": ""}
    text = report.text(document([undefined_layer("a"), undefined_layer("b", "not finite")], gap=None, slope=slope))
    assert "None" not in text
    assert "nan" not in text
    assert "gradient growth not measured" in " ".join(text.split())
    assert "dead" in text
    assert "not finite" in text


def test_names_cannot_steer_the_terminal():
    hostile = "[bold]x[/nonsense]\x1b[31m\x07\u202e\ud800"
    shown = report.text(document([layer(hostile)], name=hostile, findings=[finding(hostile, "found", layer=hostile)]))
    shown += rendered(report.gallery_table([document(name=hostile)]), 80)
    assert "[bold]" in shown  # not taken for markup
    assert not {"\x1b", "\x07", "\u202e", "\ud800"} & set(shown)


@pytest.mark.parametrize("width", [80, 110])
def test_the_gallery_has_a_row_a_network(width):
    documents = [
        document(name="net-a"),
        document(sick_at="4", name="net-b"),
        document([], name="net-c", gap=None),
    ]
    table = rendered(report.gallery_table(documents), width)
    assert max(cell_len(line) for line in table.splitlines()) <= width
    row = next(line for line in table.splitlines() if "net-b" in line)
    for cell in ("SICK", "collapse", "12.5 of 16", "×1.01", *(["4", "0.30"] if width > 100 else [])):
        assert cell in row


@pytest.mark.parametrize("width", [60, 80, 110])
def test_names_of_modules_are_whole_however_narrow_the_terminal(width):
    names = [f"model.layers.{block}.self_attention_of_the_decoder.q_proj" for block in range(2)] + ["model.norm"]
    lines = rendered(report.terminal(document([layer(name) for name in names])), width).splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("──"))
    table = lines[start + 1 : lines.index(" " * width, start)]
    end = lines[start - 1].index(" kind" if width == 110 else " gap") - 1  # where the column of names ends
    assert "".join(line[:end].strip() for line in table) == "".join(names)
    assert len(table) > len(names)


def test_a_fold_says_which_blocks_are_in_it():
    text = report.text(document(transformer(12)), 80)
    assert "… blocks.[1–11]: 65 layers folded" in text


def test_it_ends_with_what_to_do_next_and_the_command_can_be_pasted():
    steps = [
        "Read the manual.",
        "Apply the best change to a copy: `orthoscope fix 'mlp(depth=20, width=64, init=torch)' -n 32`",
    ]
    lines = report.text(document(sick_at="4", next_steps=steps), 60).splitlines()
    assert lines[-1].strip() == "orthoscope fix 'mlp(depth=20, width=64, init=torch)' -n 32"
    assert "next         Read the manual." in lines
