"""Spectra of weights in a document: which there are, and that they are of the network that was diagnosed."""

import copy
import gc
import pickle

import pytest
import torch
from torch import nn

from orthoscope.cli._fix_target import fix_target
from orthoscope.diagnosis import Diagnosis, diagnose
from orthoscope.models import MLP


def test_the_document_has_the_singular_values_of_small_weights(generator):
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(64, 6), nn.Linear(6, 20))
    rows = diagnose(model, torch.randn(8, 1, 6, 6, generator=generator)).document()["layers"]
    for row, (out, inside) in ((rows[0], (4, 9)), (rows[2], (6, 64)), (rows[3], (20, 6))):
        weight = model.get_submodule(row["name"]).weight.flatten(1)
        spectrum = row["weight_spectrum"]
        assert (spectrum["out"], spectrum["in"]) == (out, inside)
        exact = torch.linalg.svdvals(weight.double())
        torch.testing.assert_close(torch.tensor(spectrum["values"]).double(), exact, rtol=6e-4, atol=1e-6)
    assert "weight_spectrum" not in rows[1]


def test_large_and_grouped_weights_are_left_out(generator):
    model = nn.Sequential(nn.Conv1d(4, 4, 1, groups=2), nn.Flatten(), nn.Linear(300, 257), nn.Linear(257, 40))
    rows = diagnose(model, torch.randn(4, 4, 75, generator=generator)).document()["layers"]
    assert ["weight_spectrum" in row for row in rows] == [False, False, False, True]
    assert len(rows[3]["weight_spectrum"]["values"]) == 20  # every second


def small(generator: torch.Generator) -> nn.Module:
    """Four hidden layers and a head."""
    return MLP(depth=4, width=8, generator=generator)


def spectra(found: Diagnosis) -> list[str]:
    return [row["name"] for row in found.document()["layers"] if "weight_spectrum" in row]


def test_spectra_of_a_freed_model_are_kept_if_asked_for_and_missed_in_a_note(generator):
    batch = torch.randn(16, 8, generator=generator)
    kept, lost = diagnose(model := small(generator), batch), diagnose(model, batch)
    kept.compute_details()
    del model
    gc.collect()
    assert len(spectra(kept)) == 5
    assert not kept.document()["notes"]
    assert spectra(lost) == []
    (note,) = lost.document()["notes"]
    assert note.startswith("weight spectra of 5 layers are missing")


@pytest.mark.parametrize("how", ["parameter", "memory", "in place"])
def test_a_weight_that_was_replaced_has_no_spectrum(how, generator):
    model = small(generator)
    found = diagnose(model, torch.randn(16, 8, generator=generator))
    layer = next(module for module in model.modules() if isinstance(module, nn.Linear))
    if how == "parameter":
        layer.weight = nn.Parameter(layer.weight.detach().clone())
    elif how == "memory":
        layer.weight.data = layer.weight.detach().clone()
    else:
        with torch.no_grad():
            layer.weight.mul_(2)
    assert len(spectra(found)) == 4


def test_a_diagnosis_can_be_copied_pickled_and_compared(generator):
    model, batch = small(generator), torch.randn(16, 8, generator=generator)
    found = diagnose(model, batch)
    for copied in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert copied.recording == found.recording
        assert copied.details_notes, "a copy knows no model"
        assert [row["rms"] for row in copied.document()["layers"]] == [row["rms"] for row in found.document()["layers"]]
    found.compute_details()
    assert spectra(copy.deepcopy(found)) == spectra(found)
    assert not copy.deepcopy(found).details_notes
    assert diagnose(model, batch).recording == found.recording
    assert diagnose(model, 2 * batch).recording != found.recording


def test_a_fix_from_the_command_line_keeps_the_spectra_of_both_networks():
    def ignore(*_: object) -> None:
        pass

    found = fix_target("mlp(depth=20, width=8, init=torch)", None, 16, 0, None, None, False, None, True, ignore, ignore)
    gc.collect()
    assert found.steps
    assert len(spectra(found.before)) == 21
    assert len(spectra(found.after)) == 21
