r"""How far a matrix $W$, `(m, n)`, is from orthonormal, in the precision it is given in and cheap to descend.

`metrics.weights` reports these numbers in float64; `layers.penalties` adds them to a loss. All of them follow from the
smaller of the two Gram matrices, $\min(m,n)$ on a side: the larger one has the same eigenvalues and $|m-n|$ zeros.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.metrics.representations import Scalar, cosines

Matrix = Float[Tensor, "*batch out fan_in"]


def gram_deviation(matrix: Matrix) -> Scalar:
    r"""$\|WW^\top - I\|_F^2$ of a wide matrix, $\|W^\top W - I\|_F^2$ of a tall one.

    The gradient $4\,(WW^\top - I)\,W$ is written by hand: two products forward and backward where automatic
    differentiation takes three. Second derivatives are right too, and take more.
    """
    value, _ = _GramDeviation.apply(smaller_side(matrix))
    return value


def smaller_side(matrix: Matrix) -> Float[Tensor, "*batch rows columns"]:
    """The matrix itself if wide or square, else its transpose."""
    return matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT


def one_sided(deviation: Scalar, missing: int, squared: bool, remove_floor: bool) -> Scalar:
    r"""$\sqrt{s+f}$, or $s+f$ squared; less the $\sqrt f$, or $f$, that no matrix can go below.

    $s$ is the squared deviation on the smaller side and $f$ counts the eigenvalues that are missing there. Where
    the root has no derivative ($s=f=0$) the subgradient 0 is taken.
    """
    if squared:
        return deviation + (0 if remove_floor else missing)
    if missing == 0:
        return _root(deviation)
    root = (deviation + missing).sqrt()
    # Not a difference of roots: it would cancel where the penalty has done its work.
    return deviation / (root + missing**0.5) if remove_floor else root


def double_sided(deviation: Scalar, missing: int, squared: bool, remove_floor: bool) -> Scalar:
    r"""$\sqrt{s} + \sqrt{s+f}$, or $s + (s+f)$ squared: both Gram matrices from the smaller one, as in `one_sided`."""
    smaller = one_sided(deviation, 0, squared, remove_floor)
    return smaller + one_sided(deviation, missing, squared, remove_floor)


def soft_orthogonality(matrix: Matrix, squared: bool = False, remove_floor: bool = False) -> Scalar:
    r"""$\|I - W^\top W\|_F$, or its square: 0 for orthonormal columns.

    A wide matrix has too many columns and cannot go below $\sqrt{n-m}$ (squared: $n-m$), which is reached by
    orthonormal rows; `remove_floor` subtracts that.
    """
    rows, columns = matrix.shape[-2:]
    return one_sided(gram_deviation(matrix), max(0, columns - rows), squared, remove_floor)


def double_sided_orthogonality(matrix: Matrix, squared: bool = False, remove_floor: bool = False) -> Scalar:
    r"""$\|I - W^\top W\|_F + \|I - WW^\top\|_F$, or the sum of the squares: 0 only for a square orthogonal matrix.

    A matrix that is not square cannot go below $\sqrt{|m-n|}$ (squared: $|m-n|$), which is reached by orthonormal
    rows or columns; `remove_floor` subtracts that.
    """
    rows, columns = matrix.shape[-2:]
    return double_sided(gram_deviation(matrix), abs(columns - rows), squared, remove_floor)


def mutual_coherence(vectors: Float[Tensor, "*batch vectors units"]) -> Scalar:
    r"""$\max_{i \ne j} |\cos(w_i, w_j)|$ over the rows that are not zero; 0 where there are not two of them.

    The gradient is that of one pair which attains the maximum: a subgradient, in which the other pairs have none.
    """
    if vectors.shape[-2] < 2:
        return vectors.sum((-2, -1)) * 0
    count = vectors.shape[-2]
    with torch.no_grad():
        values, pairs = cosines(vectors @ vectors.mT)
        # Products, not a mask, so that nan wins; the diagonal never does.
        candidates = values.abs() * pairs - torch.eye(count, dtype=values.dtype, device=values.device)
        worst = candidates.flatten(-2).argmax(-1, keepdim=True)
        places = torch.cat([worst // count, worst % count], -1)
    pair = vectors.take_along_dim(places[..., None], -2)
    lengths = torch.linalg.vector_norm(pair, dim=-1, keepdim=True)
    # Only where no two rows have a direction is a row of zeros in the pair: 0, not 0/0.
    return (pair / torch.where(lengths == 0, 1, lengths)).prod(-2).sum(-1).abs()


def _root(square: Scalar) -> Scalar:
    """The square root, with derivative 0 at 0; nan stays nan."""
    zero = square == 0
    return torch.where(zero, square, torch.where(zero, 1, square).sqrt())


class _GramDeviation(torch.autograd.Function):
    r"""$s = \|S\|_F^2$ and $S = WW^\top - I$, which is kept for $\partial s/\partial W = 4SW$."""

    # No `jvp` of its own: torch.compile refuses a function that has one.
    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor]:
        error = gram_error(matrix)
        # Row by row: one long sum in float32 is wrong in the sixth digit (512 x 512).
        return torch.linalg.vector_norm(error, dim=-1).square().sum(-1), error

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        matrix, error = ctx.saved_tensors
        if torch.is_grad_enabled():
            # To be differentiated again: the saved error has no history, one made from the matrix has.
            error = gram_error(matrix)
        return (4 * gradient)[..., None, None] * error @ matrix


def gram_error(matrix: Matrix) -> Float[Tensor, "*batch out out"]:
    r"""$WW^\top - I$."""
    gram = matrix @ matrix.mT
    return gram - torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
