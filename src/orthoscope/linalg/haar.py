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
    r"""Matrices with orthonormal columns (rows, if wide), uniform over all of them.

    $$ G = QR, G_{ij}\sim\mathcal N(0,1) \ \Rightarrow\ Q \operatorname{sign}(\operatorname{diag} R) \sim \text{Haar} $$

    Without the signs, $Q$ inherits the sign convention of QR and is not uniform (Mezzadri, 2007).

    Args:
        rows: Number of rows, at least 1.
        columns: Number of columns, at least 1.
        *batch: Leading sizes: that many independent matrices.
        generator: Source of random numbers; the default generator of torch if None.
        dtype: Type of the result; always computed in float64.
        device: Device of the result, by default that of `generator`.

    Raises:
        ValueError: If there is no row or no column.
    """
    if rows < 1 or columns < 1:
        raise ValueError(f"haar needs at least one row and one column, got {rows} x {columns}")
    tall, wide = max(rows, columns), min(rows, columns)
    device = generator.device if generator is not None and device is None else device
    gaussian = torch.randn(*batch, tall, wide, generator=generator, dtype=torch.float64, device=device)
    q, r = torch.linalg.qr(gaussian)
    # sign(0) is 0 and would erase a column.
    signs = torch.where(r.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    frame = (q * signs.unsqueeze(-2)).to(dtype)
    # By rows, as weights are: LAPACK's layout by columns would slow down later sums with other matrices.
    return (frame if rows >= columns else frame.mT).contiguous()
