"""From an orthonormal frame to its angles, by elimination."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.givens._tiles import tile_levels, tile_order
from orthoscope.linalg.givens.frame import (
    angle_slots,
    angles_at,
    check_real,
    checked_pivots,
    filled_up,
    givens_count,
    triangles_of,
    undo_,
)
from orthoscope.linalg.polar import require_orthonormal
from orthoscope.linalg.precision import to_double

# Smaller entries are set to zero: their squares would underflow, and without them the frame is the same to rounding.
_NEGLIGIBLE = 1e-140
# Columns that are cleared one by one, before their rotations are applied to the columns after them, tile by tile.
_PANEL = 32


def givens_coordinates(
    frame: Float[Tensor, "*batch rows columns"], pivots: int | None = None
) -> tuple[Float[Tensor, "*batch count"], Float[Tensor, "*batch columns"]]:
    r"""Angles in $(-\pi, \pi]$ and signs with `frame == givens_frame(angles, rows, columns, pivots) * signs`.

    Rotations clear the frame below its diagonal, column after column. For pivot $i$ and its column $x$, with
    $r_i = x_i$ and $r_j = \sqrt{r_{j-1}^2 + x_j^2}$,

    $$ \theta_{ij} = \operatorname{atan2}(x_j, r_{j-1}), \qquad
       \text{row}_j \leftarrow \cos\theta_{ij}\,\text{row}_j - \sin\theta_{ij}\,P_{j-1}, \qquad
       P_j = \frac1{r_j}\sum_{l=i}^{j} x_l\,\text{row}_l, $$

    where $P_j$ is what the pivot's row has become after $j$. What is left of an orthonormal frame is a diagonal of
    signs: with all pivots they are +1, but for the last of a square frame, its determinant. Computed in float64.

    Args:
        frame: Real orthonormal columns.
        pivots: Number of pivots; by default as many as reach every frame.

    Raises:
        TypeError: If the frame is not of real floating-point numbers.
        ValueError: If it is wide, not orthonormal, or not reached with so few pivots, each to the square root of its
            precision. Some frames that few pivots reach are refused as well: their angles cannot be found by
            elimination, because all but the last entries of a pivot's column vanish.
    """
    check_real(frame, "frames")
    *batch, rows, columns = frame.shape
    pivots = checked_pivots(rows, columns, pivots)
    if frame.numel() == 0:
        return frame.new_empty(*batch, givens_count(rows, pivots)), frame.new_empty(*batch, columns)
    tolerance = torch.finfo(frame.dtype).eps ** 0.5
    require_orthonormal(frame, tolerance)
    rest = to_double(frame).reshape(-1, rows, columns)
    angles = [rest.new_empty(rest.shape[0], 0)]
    for done in range(0, pivots, _PANEL):
        width = min(_PANEL, pivots - done)
        angles.append(_panel_angles(rest[..., :width]))
        rest = _rotations_undone(angles[-1], rest[..., width:], width)[:, width:]
    signs = torch.where(rest.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0).to(rest)
    if pivots < min(columns, rows - 1):
        _check_reached(rest, signs, pivots, tolerance)
    signs = torch.cat([signs.new_ones(rest.shape[0], pivots), signs], -1)
    return (
        torch.cat(angles, -1).reshape(*batch, givens_count(rows, pivots)).to(frame.dtype),
        signs.reshape(*batch, columns).to(frame.dtype),
    )


def _panel_angles(panel: Tensor) -> Tensor:
    """The angles that clear every column of a panel below its diagonal, in order."""
    angles = []
    while panel.shape[-1]:
        of_pivot, panel = _eliminated(panel)
        angles.append(of_pivot)
    return torch.cat(angles, -1)


def _eliminated(rest: Tensor) -> tuple[Tensor, Tensor]:
    """The angles that clear the first column, and the other columns below the first row after these rotations."""
    column = torch.where(rest[..., :1].abs() < _NEGLIGIBLE, 0.0, rest[..., :1])
    entries, lengths = column[..., 1:, :], column.square().cumsum(-2).sqrt()
    before, after = torch.cat([column[..., :1, :], lengths[..., 1:-1, :]], -2), lengths[..., 1:, :]
    cosine, sine = torch.where(after > 0, before / after, 1.0), torch.where(after > 0, entries / after, 0.0)
    first, others = rest[..., :1, 1:], rest[..., 1:, 1:]
    sums = (column[..., :-1, :] * rest[..., :-1, 1:]).cumsum(-2)
    pivot_rows = torch.where(before == 0, first, sums / before)
    return torch.atan2(entries, before).squeeze(-1), cosine * others - sine * pivot_rows


def _rotations_undone(angles: Tensor, matrix: Tensor, pivots: int) -> Tensor:
    """The transposed product of rotations times matrices `(batch, rows, columns)`, for pivots that fit one block."""
    order = tile_order(matrix.shape[-2], pivots, angles.shape[0], angles.device)
    assert order.pivot_blocks == 1, f"{pivots} pivots are more than a block of {order.size}"
    slots, state = angle_slots(angles), filled_up(matrix, order)
    undo_(state, triangles_of(slots, order)[-1].triangles, (0,), order.size)
    for chunk in order.chunks:
        tiles = tile_levels(angles_at(slots, chunk.places), order.size)[-1].unflatten(0, (len(chunk.blocks), -1))
        for blocks, tile in zip(chunk.blocks, tiles, strict=True):
            undo_(state, tile, blocks, order.size)
    return state[:, : matrix.shape[-2]]


def _check_reached(rest: Tensor, signs: Tensor, pivots: int, tolerance: float) -> None:
    diagonal = torch.eye(*rest.shape[-2:], dtype=rest.dtype, device=rest.device) * signs.unsqueeze(-2)
    error = (rest - diagonal).abs().max()
    if not error <= tolerance:
        raise ValueError(
            f"{pivots} pivots do not reach this frame, an entry of {error:.1e} is left, {tolerance:.1e} is allowed: "
            "take more pivots"
        )
