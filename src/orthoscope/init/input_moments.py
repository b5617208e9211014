"""What a layer is given, row by row, in a memory that does not grow with the rows: their spread, and a few of them."""

import torch
from jaxtyping import Float64
from torch import Tensor

from orthoscope.linalg import sample_frame


class InputMoments:
    r"""Of rows $H$ `(rows, fan_in)`, a stack of groups, that come in blocks: a triangle, their number, and a sample.

    $$ FF^\top = H^\top H = \sum_{\text{blocks}} H_b^\top H_b, \qquad F \in \mathbb{R}^{\text{fan\_in} \times
       \text{fan\_in}} $$

    $F$ has the singular values of $H$ and, as left vectors, its right ones. It is updated by a QR factorisation, not
    summed as $H^\top H$, which would square the condition number. Each row draws a key from `generator`, and the
    `wanted` rows of the smallest keys are kept: uniform without repetition, in an order that is random too, and the
    same however the rows were cut into blocks.
    """

    def __init__(self, wanted: int, generator: torch.Generator) -> None:
        self.wanted, self.generator = wanted, generator
        self.rows = 0
        self.triangle: Float64[Tensor, "groups fan_in fan_in"] | None = None
        self.sample: Float64[Tensor, "groups wanted fan_in"] | None = None
        self._keys = torch.empty(0, dtype=torch.float64, device=generator.device)

    def add(self, rows: Float64[Tensor, "groups rows fan_in"]) -> None:
        keys = torch.rand(rows.shape[1], generator=self.generator, dtype=torch.float64, device=self.generator.device)
        keys = torch.cat([self._keys, keys])
        lowest = keys.argsort()[: self.wanted]
        seen = rows if self.sample is None else torch.cat([self.sample, rows], dim=1)
        self._keys, self.sample = keys[lowest], seen[:, lowest.to(rows.device)]
        columns = rows.mT if self.triangle is None else torch.cat([self.triangle, rows.mT], dim=-1)
        self.triangle = sample_frame(columns)
        self.rows += rows.shape[1]
