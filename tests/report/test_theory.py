import re
from typing import Any

import pytest

from orthoscope import report
from orthoscope.report.document import DiagnosisDocument, as_document
from orthoscope.report.terminal import theory_words as sentence
from report.handmade import EXPECTED, document, explained, layer, sequential
from report.markup import HOSTILE, Page


def theory_words(made: dict[str, Any]) -> str:
    read = as_document(made)
    assert isinstance(read, DiagnosisDocument)
    return sentence(read)


def in_one_line(made: dict[str, Any]) -> str:
    return " ".join(report.text(made).split())


def expecting(**changes: Any) -> dict[str, Any]:
    return explained(sequential(3, predicted=EXPECTED | changes))


def test_the_terminal_puts_predicted_beside_measured() -> None:
    words = in_one_line(explained())
    assert (
        "predicted orthogonality gap 0.31 (measured 0.30) · effective rank 9.5 (12) of 16 · mean overlap 0.26 (0.25)"
        in words
    )
    assert "gradient growth per weight layer ×1.02 (×1.01), by poole2016" in words


def test_theory_comes_after_the_layers_and_before_the_checks() -> None:
    text = report.text(explained())
    assert text.index("|grad|") < text.index("theory ") < text.index("clean ")


def test_without_a_prediction_the_reason_is_given() -> None:
    assert "theory no prediction: it was made by hand" in in_one_line(document())


def test_sources_of_the_same_paper_are_named_once_in_a_terminal() -> None:
    made = explained()
    made["prediction"]["sources"] = [
        {"source": f"{key}, equation ({number})", "assumes": ""} for key in ("b2017", "a2016") for number in (1, 2)
    ]
    assert theory_words(made).endswith(", by b2017, a2016")


@pytest.mark.parametrize("unsaid", EXPECTED)
def test_a_number_that_theory_lacks_is_silent(unsaid: str) -> None:
    words = theory_words(expecting(**{unsaid: None}))
    assert "None" not in words
    assert "–" not in words


def test_theory_without_any_number_says_so() -> None:
    nothing: dict[str, Any] = {"reason": None, "slope": None, "sources": []}
    networks: list[list[dict[str, Any]]] = [[], sequential(2), sequential(2, predicted=dict.fromkeys(EXPECTED))]
    for layers in networks:
        made = document(layers, prediction=nothing)
        assert theory_words(made).startswith("no prediction: theory has no number")


def test_what_is_compared_is_the_quoted_layer() -> None:
    layers = [
        layer("wide", 1, predicted=EXPECTED | {"overlap": 0.77}),
        layer("narrow", 2, units=4, predicted=EXPECTED | {"overlap": 0.66}),
    ]
    words = theory_words(explained(layers))
    assert "overlap 0.77 (0.25)" in words
    assert "0.66" not in words


@pytest.mark.parametrize("norm", [5e-324, 1e-300, 1e308])
@pytest.mark.parametrize("measured", [None, 0.0, 1e-320, 1.0, 1e308])
def test_extreme_predictions_render(norm: float, measured: float | None) -> None:
    layers = [
        layer(
            str(n), n, rms=measured, gradient_norm=measured, predicted=EXPECTED | {"rms": norm, "gradient_norm": norm}
        )
        for n in range(1, 5)
    ]
    page = Page(report.html([explained(layers)]))
    assert not re.search(r"\b(nan|inf|None)\b", " ".join(page.texts))


@pytest.mark.parametrize("text", HOSTILE)
def test_no_source_or_reason_steers_a_terminal(text: str) -> None:
    made = explained()
    made["prediction"]["sources"] = [{"source": text, "assumes": text}]
    refused = document(prediction={"reason": text, "slope": None, "sources": []})
    assert not {"\x1b", "\x00", "\u202e", "\ud800"} & set(theory_words(made) + theory_words(refused))
