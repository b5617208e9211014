r"""The largest singular values of an operator that is given only by its products, with an error bound for each.

Block Golub-Kahan with full reorthogonalization and thick restarts: orthonormal $V$ and $U$ grow by a block at a time
so that $AV = UB$, and $A^\top U$ leaves the span of $V$ only through its last block. The singular triplets of the
small $B$ are those of $A$ up to a residual $\|A^\top u - \sigma v\|$, which is known without further products, and
$\sigma$ is within it of a true singular value (Weyl). One product with a block is far cheaper than many with vectors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Vectors = Float[Tensor, "*batch dimension count"]
Product = Callable[[Tensor], Tensor]

# Vectors in a block beyond those asked for: convergence depends on the gap to the first value outside the block.
_OVERSAMPLING = 4
# Blocks kept before a restart: memory against products.
_BLOCKS = 10
_MOST_BLOCKS = 200


class Triplets(NamedTuple):
    """`left` · diag(`values`) · `right`ᵀ, largest first; each value is within its error of a true one.

    Attributes:
        left: Left singular vectors, as columns.
        values: Singular values, largest first, in float64.
        right: Right singular vectors, as columns.
        errors: Error bound of each singular value.
    """

    left: Vectors
    values: Float[Tensor, "*batch count"]
    right: Vectors
    errors: Float[Tensor, "*batch count"]


@dataclass
class _Bases:
    """$AV = UB$ with orthonormal $V$ and $U$; `width` columns of $U$ are the newest."""

    left: Tensor
    right: Tensor
    small: Tensor
    width: int


def top_triplets(
    multiply: Product,
    multiply_transposed: Product,
    start: Vectors,
    count: int,
    *,
    tolerance: float = 1e-4,
) -> Triplets:
    r"""The `count` largest singular triplets of $A$, for a batch of operators at a time.

    Args:
        multiply: $V \mapsto AV$.
        multiply_transposed: $U \mapsto A^\top U$.
        start: Random vectors `(..., columns of A, width)`; at least `count`, see `block_width`.
        count: Number of triplets.
        tolerance: The iteration stops when every residual is below this times the largest value, or after 200 blocks.

    Returns:
        The triplets with their residuals; a residual above the tolerance means that the iteration did not converge.

    Raises:
        ValueError: If the block has fewer vectors than `count`.
    """
    if start.shape[-1] < count:
        raise ValueError(f"{count} triplets need a block of at least as many vectors, got {start.shape[-1]}")
    new = torch.linalg.qr(start).Q
    bases: _Bases | None = None
    for number in range(_MOST_BLOCKS):
        bases = _extended(bases, new, multiply(new))
        x, values, y = torch.linalg.svd(bases.small)
        _, new, rest = _orthonormalized(multiply_transposed(bases.left[..., -bases.width :]), bases.right)
        last = x[..., -bases.width :, :].to(rest.dtype)
        residuals = torch.linalg.vector_norm((rest @ last).double(), dim=-2)
        full = bases.right.shape[-1] + new.shape[-1] > start.shape[-2]
        worst = residuals[..., :count].amax(-1) - tolerance * values[..., 0]
        if full or number == _MOST_BLOCKS - 1 or bool((worst <= 0).all()):
            break
        if bases.right.shape[-1] >= _BLOCKS * start.shape[-1]:
            # Only the best triplets: Aᵀ maps them into their span and that of the next block.
            left, right, kept = _best(bases, x, values, y, 2 * start.shape[-1])
            bases = _Bases(left, right, torch.diag_embed(kept), bases.width)
    assert bases is not None
    left, right, kept = _best(bases, x, values, y, count)
    return Triplets(left, kept, right, residuals[..., :count])


def _best(bases: _Bases, x: Tensor, values: Tensor, y: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Left and right singular vectors and the values of the best triplets."""
    left = bases.left @ x[..., :count].to(bases.left.dtype)
    right = bases.right @ y.mT[..., :count].to(bases.right.dtype)
    return left, right, values[..., :count]


def block_width(count: int) -> int:
    """A good number of vectors in a block for `count` triplets."""
    return count + _OVERSAMPLING


def _extended(bases: _Bases | None, right: Tensor, image: Tensor) -> _Bases:
    """$V$ and $U$ with one more block: `image` is $A$ times the new columns of $V$."""
    if bases is None:
        frame, triangle = torch.linalg.qr(image)
        return _Bases(frame, right, triangle.double(), frame.shape[-1])
    inside, frame, triangle = _orthonormalized(image, bases.left)
    top = torch.cat([bases.small, inside.double()], dim=-1)
    zeros = bases.small.new_zeros(*bases.small.shape[:-2], triangle.shape[-2], bases.small.shape[-1])
    bottom = torch.cat([zeros, triangle.double()], dim=-1)
    return _Bases(
        torch.cat([bases.left, frame], dim=-1),
        torch.cat([bases.right, right], dim=-1),
        torch.cat([top, bottom], dim=-2),
        frame.shape[-1],
    )


def _orthonormalized(vectors: Tensor, basis: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""$Y = \text{basis}\,C + QR$ with $Q$ orthonormal and orthogonal to the basis: $(C, Q, R)$.

    Three times: where $Y$ nearly lies in the span of the basis, the rest of it is mostly rounding, and a $Q$ that is
    not orthogonal to the basis would make one singular value look like two.
    """
    inside = basis.mT @ vectors
    frame, triangle = torch.linalg.qr(vectors - basis @ inside)
    for _ in range(2):
        more = basis.mT @ frame
        frame, again = torch.linalg.qr(frame - basis @ more)
        inside = inside + more @ triangle
        triangle = again @ triangle
    return inside, frame, triangle
