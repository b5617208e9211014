"""The exponential chart of orthonormal frames, around a frame of one's choice."""

import torch
from jaxtyping import Inexact
from torch import Tensor

from orthoscope.linalg.gram_series import gram_excess, inverse_root_series
from orthoscope.linalg.precision import full_precision
from orthoscope.linalg.products import skew_part
from orthoscope.linalg.taylor import taylor_exponential

# Distance from orthonormal up to which the series leaves a rounding.
_NEAR = 0.01


def skew_exponential(skew: Inexact[Tensor, "*batch size size"]) -> Inexact[Tensor, "*batch size size"]:
    r"""$e^A$, orthogonal (unitary), for skew-symmetric (skew-Hermitian) $A$; of any other, the skew part is taken.

    By a Taylor polynomial of degree 12 and repeated squaring; see `taylor_exponential`.
    """
    with full_precision(skew.device.type):
        return taylor_exponential(skew_part(_stacked(skew)), skew=True).view(skew.shape)


def exponential_frame(
    coordinates: Inexact[Tensor, "*batch rows columns"], anchor: Inexact[Tensor, "*batch rows columns"]
) -> Inexact[Tensor, "*batch rows columns"]:
    r"""An orthonormal frame for all `coordinates` $X$ around the frame `anchor` $B$; zero gives the anchor.

    Square, with $L$ the strictly lower triangle of $X$ (if complex, and the imaginary part of the diagonal):

    $$ Q = B\,e^{L - L^\mathsf{H}} $$

    Tall, with $Z = X - BB^\mathsf{H}X$ and $K$ the skew-Hermitian part of $B^\mathsf{H}X$:

    $$ Q = BM + ZN, \qquad \begin{pmatrix} M \\ N \end{pmatrix} =
       \exp\begin{pmatrix} K & -Z^\mathsf{H}Z \\ I & 0 \end{pmatrix}\begin{pmatrix} I \\ 0 \end{pmatrix} $$

    In an orthonormal basis of $B$ and $Z$ that is the exponential of a skew-Hermitian matrix, and $Q$ is where the
    geodesic of the canonical metric (Edelman, Arias & Smith, 1998) ends that starts at $B$ along the projection
    of $X$ on the tangent space, $X - \tfrac12B(B^\mathsf{H}X + X^\mathsf{H}B)$. Real square frames keep the
    determinant of the anchor; all others are reached.

    Square frames are orthonormal for coordinates of any size. Tall ones are up to $\|X\|_2$ of about $10^4$ in single
    precision and $10^{12}$ in double, where roundings are a hundredth of a radian; beyond that they are nan.
    """
    if coordinates.shape != anchor.shape:
        raise ValueError(
            f"coordinates and anchor must have one shape, got {tuple(coordinates.shape)} and {tuple(anchor.shape)}"
        )
    rows, columns = coordinates.shape[-2:]
    if rows < columns:
        raise ValueError(f"a frame has at least as many rows as columns, got {rows} x {columns}: transpose it")
    chart = _square_chart if rows == columns else _tall_chart
    # Products in half precision would not be orthonormal.
    with full_precision(coordinates.device.type):
        return chart(_stacked(coordinates), _stacked(anchor)).view(coordinates.shape)


def _stacked(matrix: Tensor) -> Tensor:
    """All batch dimensions as one and rows contiguous, so that products can be fused with sums."""
    return matrix.reshape(matrix.shape[:-2].numel(), *matrix.shape[-2:]).contiguous()


def _square_chart(coordinates: Tensor, anchor: Tensor) -> Tensor:
    # A real part of the diagonal cancels in L - Lᴴ.
    lower = coordinates.tril(0 if coordinates.is_complex() else -1)
    return anchor @ taylor_exponential(lower - lower.mH, skew=True)


def _tall_chart(coordinates: Tensor, anchor: Tensor) -> Tensor:
    columns = coordinates.shape[-1]
    overlap = anchor.mH @ coordinates
    normal = torch.baddbmm(coordinates, anchor, overlap, alpha=-1)
    gram = normal.mH @ normal
    scale = _balance(gram)
    identity = torch.eye(columns, dtype=gram.dtype, device=gram.device).expand_as(gram)
    upper = torch.cat([(overlap - overlap.mH) / 2, -gram / scale], dim=-1)
    lower = torch.cat([identity * scale, torch.zeros_like(gram)], dim=-1)
    exponential = taylor_exponential(torch.cat([upper, lower], dim=-2), skew=False)
    along, across = exponential[..., :columns].split(columns, dim=-2)
    return _made_orthonormal(torch.baddbmm(anchor @ along, normal, across / scale))


def _made_orthonormal(frame: Tensor) -> Tensor:
    r"""$Q(Q^\mathsf{H}Q)^{-1/2}$ by its series, for a frame that is orthonormal but for roundings; nan if it is not.

    As a constant that is added: moves of a frame along the manifold are the same before and after.
    """
    rounded = frame.detach()
    excess = gram_excess(rounded)
    is_near = torch.linalg.matrix_norm(excess)[..., None, None] < _NEAR
    return frame + torch.where(is_near, rounded @ inverse_root_series(excess, 2), torch.nan)


def _balance(gram: Tensor) -> Tensor:
    r"""$\delta = \max(1, \|Z^\mathsf{H}Z\|_F^{1/2})$, by which $-Z^\mathsf{H}Z/\delta$ and $\delta I$ are of one size.

    It changes nothing but rounding: $N$ comes out as $\delta N$. So it is a constant to differentiation.
    """
    return torch.linalg.matrix_norm(gram.detach(), keepdim=True).sqrt().clamp_min(1.0)
