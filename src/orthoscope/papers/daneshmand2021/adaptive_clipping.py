"""Adaptive gradient clipping (Brock et al., 2021) by whole layers, as joudaki2024 has it in section A.5."""

import torch
from torch import nn

_SMALLEST_WEIGHT = 1e-2


class AdaptiveClipping:
    r"""Shortens each gradient that is longer than `limit` $= \lambda$ times its weight, (A.21), and counts them.

    $$ G \leftarrow \min\Big(1,\ \lambda\,\frac{\max(\|W\|_F, 10^{-2})}{\|G\|_F}\Big)\, G $$
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.seen = 0
        self.shortened = 0

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> None:
        for weight in model.parameters():
            if weight.grad is None:
                continue
            longest = self.limit * weight.norm().clamp_min(_SMALLEST_WEIGHT)
            length = weight.grad.norm()
            self.seen += 1
            if length > longest:
                self.shortened += 1
                weight.grad *= longest / length

    @property
    def share(self) -> float:
        """Of all gradients, how many were shortened."""
        return self.shortened / max(self.seen, 1)
