"""What a diagnosis says to do next."""

import math

import torch
from torch import nn

import orthoscope


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.Tanh())))


def test_token_ids_without_a_rank_are_no_omission() -> None:
    model = nn.Sequential(nn.Embedding(50, 16), *network())
    diagnosis = orthoscope.diagnose(model, torch.randint(0, 50, (32, 8)))
    assert any(finding.reason == "token ids have no directions" for finding in diagnosis.findings)
    assert not any("Not checked" in step for step in diagnosis.as_document().next_steps)
    assert "not checked" not in diagnosis.summary


def test_nan_in_a_weight_leads_to_its_module() -> None:
    model = network()
    with torch.no_grad():
        model[2].weight[0, 0] = math.nan
    steps = orthoscope.diagnose(model, torch.randn(32, 16)).as_document().next_steps
    assert steps[0] == "Look for nan, or for numbers that overflow, in the weights and the input of module 2."


def test_too_few_samples_ask_for_more_and_not_for_a_fix() -> None:
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(30)))  # vanishing gradients
    steps = orthoscope.diagnose(model, torch.randn(2, 16)).as_document().next_steps
    assert len(steps) == 1
    assert "at least 8 samples" in steps[0]
