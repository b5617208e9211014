"""The spread of lengths: against its definition, at its bounds, and in every view of a diagnosis."""

import math
import statistics

import pytest
import torch
from torch import nn

from orthoscope import diagnose, metrics


def test_it_is_the_coefficient_of_variation_of_the_lengths() -> None:
    batch = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
    lengths = [math.hypot(*row) for row in batch.tolist()]
    expected = statistics.pstdev(lengths) / statistics.fmean(lengths)
    assert float(metrics.length_spread(batch)) == pytest.approx(expected, rel=1e-12)
    assert float(metrics.length_spread(1e-20 * batch.double())) == pytest.approx(expected, rel=1e-6), "no scale"


def test_it_is_0_for_equal_lengths_and_at_most_the_root_of_the_others() -> None:
    assert float(metrics.length_spread(torch.eye(6))) == 0
    one = torch.zeros(6, 6).index_put_((torch.tensor(0), torch.tensor(0)), torch.tensor(1.0))
    assert float(metrics.length_spread(one)) == pytest.approx(math.sqrt(5))
    assert float(metrics.length_spread(torch.zeros(6, 6))) != float(metrics.length_spread(one)), "nan: undefined"


def test_a_diagnosis_shows_it_in_every_view() -> None:
    batch = torch.eye(8) * torch.tensor([100.0, *[1.0] * 7]).unsqueeze(-1)
    linear = nn.Linear(8, 8, bias=False)
    nn.init.orthogonal_(linear.weight)
    diagnosis = diagnose(nn.Sequential(linear, nn.Identity()), batch)
    expected = float(metrics.length_spread(batch))
    layer = diagnosis.layers[0]
    assert layer.gap > 0.9
    assert layer.overlap == pytest.approx(0, abs=1e-6), "the gap is of lengths alone"
    assert layer.sample_view is not None
    assert layer.sample_view.length_spread == pytest.approx(expected, rel=1e-5)
    assert diagnosis.document()["layers"][0]["sample_view"]["length_spread"] == pytest.approx(expected, rel=1e-5)
    assert diagnosis.to_frame()["length_spread"][0] == pytest.approx(expected, rel=1e-5)
    assert "spread of lengths" in diagnosis._repr_html_(), "the page's table of quantities"
