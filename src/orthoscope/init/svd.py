"""Xavier's weights with all singular values made equal (joudaki2024, section A.5 (i))."""

import torch

from orthoscope.init.weights import WeightLayer, fans, fill_, normal_blocks
from orthoscope.linalg.svd import svd


def svd_(layer: WeightLayer, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    r"""$W = \bar\sigma\,UV^\top$, where $U \operatorname{diag}(\sigma)\, V^\top$ is what `xavier_` draws.

    Uniform among orthogonal matrices, as by `orthogonal_`, times the mean singular value $\bar\sigma$: in a wide square
    layer $\frac8{3\pi} = 0.85$, so that each leaves 0.72 of the mean square. Each group on its own.
    """
    drawn = normal_blocks(layer, gain * (2 / sum(fans(layer))) ** 0.5, generator)
    left, values, right = svd(drawn.double())
    fill_(layer, values.mean(-1)[:, None, None] * left @ right)
