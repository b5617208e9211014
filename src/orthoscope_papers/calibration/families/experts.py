"""Mixtures of experts: a router gives every token to two of four feed-forward networks."""

import torch
from torch import Tensor, nn

from orthoscope_papers.calibration.families.family import Family, Settings
from orthoscope_papers.calibration.families.parts import (
    Attention,
    Characters,
    FeedForward,
    Mean,
    Patches,
    Stack,
    normal_,
    transformer_block,
)
from orthoscope_papers.calibration.tasks import CLASSES, LENGTH, VOCABULARY

_WIDTH, _BLOCKS = 32, 3


class Experts(nn.Module):
    """The sum of the chosen experts, weighted by the softmax of the router over those chosen."""

    def __init__(self, width: int, experts: int = 4, chosen: int = 2) -> None:
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(width, 2 * width) for _ in range(experts))

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(0, -2)
        best = self.router(tokens).topk(self.chosen, dim=-1)
        weights = best.values.softmax(-1)
        output = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            token, place = (best.indices == number).nonzero(as_tuple=True)
            if len(token):
                output = output.index_add(0, token, expert(tokens[token]) * weights[token, place, None])
        return output.view_as(x)


def _blocks(settings: Settings, causal: bool) -> list[nn.Module]:
    return [
        transformer_block(_WIDTH, Attention(_WIDTH, 4, causal=causal), Experts(_WIDTH), after=settings.moved)
        for _ in range(_BLOCKS * settings.depth)
    ]


def moe_gpt(settings: Settings) -> nn.Module:
    """A mixture in every block of a GPT."""
    stem, neck = Characters(VOCABULARY, _WIDTH, LENGTH), nn.LayerNorm(_WIDTH)
    return normal_(Stack(stem, _blocks(settings, causal=True), neck, nn.Linear(_WIDTH, VOCABULARY)))


def moe_vit(settings: Settings) -> nn.Module:
    """A mixture in every block of a ViT."""
    neck = nn.Sequential(nn.LayerNorm(_WIDTH), Mean())
    stem = Patches(1, _WIDTH, 4, 16)
    return normal_(Stack(stem, _blocks(settings, causal=False), neck, nn.Linear(_WIDTH, CLASSES)))


EXPERTS = (
    Family("moe gpt", "mixture of experts", "next characters", moe_gpt, movable=True, own_weights=True),
    Family("moe vit", "mixture of experts", "fashion-mnist", moe_vit, movable=True, own_weights=True),
)
