"""One standard deviation for every layer, whatever its width, as GPT-2 and BERT are initialised."""

import torch

from orthoscope.init.weights import WeightLayer, fill_, normal_blocks

# https://github.com/openai/gpt-2/blob/master/src/model.py, `w_init_stdev`
TRANSFORMER_STD = 0.02


def normal_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W_{ij} \sim \mathcal N(0, (0.02\,\text{gain})^2)$."""
    fill_(layer, normal_blocks(layer, gain * TRANSFORMER_STD, generator))
