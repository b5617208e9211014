import torch
from torch import nn

from orthoscope.diagnosis import diagnose


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
