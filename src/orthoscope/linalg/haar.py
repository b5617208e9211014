"""Random orthogonal matrices, uniform in the sense of Haar."""

import torch
from jaxtyping import Float
from torch import Tensor


def haar(
    rows: int,
    columns: int,
    *batch: int,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
) -> Float[Tensor, "*batch rows columns"]:
    r"""A matrix with orthonormal columns (rows, if it is wide), uniform over all of them.

    $$ G = QR, G_{ij}\sim\mathcal N(0,1) \ \Rightarrow\ Q \operatorname{sign}(\operatorname{diag} R) \sim \text{Haar} $$

    Without the signs, QR's own convention leaks into $Q$ and it is not uniform (Mezzadri, 2007).
    Leading sizes `batch` give that many independent matrices at once.
    """
    if rows < 1 or columns < 1:
        raise ValueError(f"haar needs at least one row and one column, got {rows} x {columns}")
    tall, wide = max(rows, columns), min(rows, columns)
    device = generator.device if generator is not None and device is None else device
    gaussian = torch.randn(*batch, tall, wide, generator=generator, dtype=torch.float64, device=device)
    q, r = torch.linalg.qr(gaussian)
    # sign(0) is 0 and would erase a column; it has probability zero, but costs nothing to exclude.
    signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    frame = (q * signs.unsqueeze(-2)).to(dtype)
    # By rows, as weights are: LAPACK's columns would slow down whatever later reads one beside the other.
    return (frame if rows >= columns else frame.mT).contiguous()
