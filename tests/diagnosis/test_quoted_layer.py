"""The gap of a network is that of one layer, which the document names: every view gives the same number."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

import orthoscope
from orthoscope import report
from orthoscope.report.document import DiagnosisDocument, to_data
from orthoscope.report.layout import as_text
from orthoscope.report.terminal import gallery_table


@pytest.fixture
def diagnosis() -> orthoscope.Diagnosis:
    """A head of 63 units for 64 samples: centered, it can have as many directions as a layer of 64."""
    generator = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 63))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / 8)
    return orthoscope.diagnose(model, torch.randn(64, 64, generator=generator))


def test_a_head_with_fewer_units_than_samples_is_not_quoted(diagnosis: orthoscope.Diagnosis) -> None:
    gaps = {layer.name: layer.gap for layer in diagnosis.layers}
    assert abs(gaps["1"] - gaps["2"]) > 0.01, "the layers must differ for this to say anything"
    document = diagnosis.as_document()
    assert document.quoted is not None
    assert document.quoted.name == "1"
    assert document.gap == document.quoted.measured("gap") == diagnosis.gap == gaps["1"]


def test_every_view_gives_the_number_of_the_quoted_layer(diagnosis: orthoscope.Diagnosis, tmp_path: Path) -> None:
    document = diagnosis.as_document()
    gap = f"{document.gap:.2f}"
    assert f"gap {gap} at module 1 " in " ".join(report.text(document).split())
    assert report.frame(document).loc[document.quoted_layer, "gap"] == document.gap
    assert orthoscope.compare(diagnosis, diagnosis).as_document().numbers[0].before == document.gap
    assert orthoscope.prescriptions.comparison.effect(diagnosis).gap == document.gap
    wide = as_text(gallery_table([document, document]), 140)
    assert len(re.findall(rf" {re.escape(gap)} ", wide)) == 2
    rank = f"{document.layers[1].measured('effective_rank'):.1f} of 64"
    assert rank in wide
    diagnosis.save(tmp_path / "saved.json")
    (saved,) = orthoscope.prescriptions.comparison.saved_documents(tmp_path / "saved.json")
    assert isinstance(saved, DiagnosisDocument)
    assert saved.gap == document.gap
    assert to_data(saved) == diagnosis.document()


def test_nothing_is_quoted_where_nothing_was_measured() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[0].bias)
    document = orthoscope.diagnose(model, torch.randn(8, 4)).as_document()
    assert document.quoted_layer is None
    assert document.gap is None
