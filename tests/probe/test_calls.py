"""From what users call a batch and a loss to a call of the model."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from orthoscope.probe import record
from probe.readings import assert_measures, batch, linear, row


def test_a_model_may_change_its_input_in_place() -> None:
    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()

        def forward(self, inputs: Tensor) -> Tensor:
            return self.layer(inputs.mul_(2))

    inputs = batch()
    before = inputs.clone()
    assert_measures(row(record(Doubling(), inputs), "layer"), Doubling().layer(2 * before))
    assert torch.equal(inputs, before), "the user's batch is not ours to change"


class KeywordOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = linear()

    def forward(self, *, values: Tensor, scale: float = 1.0) -> Tensor:
        return self.layer(values) * scale


def test_a_dict_is_keyword_arguments() -> None:
    recording = record(KeywordOnly(), {"values": batch(), "scale": 3.0})
    assert recording.samples == 12
    assert row(recording, "layer").gradient_norm == pytest.approx(3.0)
    assert row(recording, "").rms == pytest.approx(3 * row(recording, "layer").rms)


def test_a_pair_from_a_loader_is_input_and_target() -> None:
    data = torch.utils.data.TensorDataset(batch(), torch.zeros(12, dtype=torch.long))
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    recording = record(linear(), loader, nn.functional.cross_entropy)
    assert recording.samples == 8
    assert recording.gradient_source == "the loss"


@pytest.mark.parametrize(
    ("model", "inputs", "message"),
    [
        (nn.LazyLinear(3), batch(), "not initialized yet"),
        (linear().to("meta"), batch(), "meta device"),
        (linear(), "words", "a batch is a tensor, tuple, dict or DataLoader, got str"),
        (linear(), {"values": 3}, "holds no tensor"),
        (linear(), torch.utils.data.DataLoader([]), "DataLoader is empty"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_bad_input_gets_one_sentence(model: nn.Module, inputs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        record(model, inputs)


def test_a_loss_must_be_one_number() -> None:
    with pytest.raises(ValueError, match="one number in a tensor"):
        record(linear(), batch(), lambda output: output)


def test_a_dict_that_fits_no_argument_names_is_the_one_argument() -> None:
    class TakesBatch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()

        def forward(self, batch: dict[str, Tensor]) -> Tensor:
            return self.layer(batch["values"])

    assert record(TakesBatch(), {"values": batch(), "labels": torch.zeros(12)}).layers[0].name == "layer"


def test_labels_of_a_loader_do_not_become_an_optional_argument() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = linear()

        def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
            assert mask is None
            return self.layer(inputs)

    data = torch.utils.data.TensorDataset(batch(), torch.zeros(12, dtype=torch.long))
    model, loader = Masked(), torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)
    before = torch.get_rng_state()
    assert record(model, loader, nn.functional.cross_entropy).gradient_source == "the loss"
    assert torch.equal(torch.get_rng_state(), before)
