r"""Penalties that pull a weight towards orthogonality, as differentiable functions of one matrix `(out, in)`.

Computed in the weight's own precision (float32, if it is stored in less, also under autocast), batched over leading
dimensions. `metrics.weights` has the same quantities in float64, to report.
`OrthogonalityPenalty` applies them to a model.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.layers.parametrization import computing_dtype
from orthoscope.linalg.precision import full_precision
from orthoscope.metrics import deviation
from orthoscope.metrics.deviation import gram_error, smaller_side

Weight = Float[Tensor, "*batch out fan_in"]
Scalar = Float[Tensor, "*batch"]
Direction = Float[Tensor, "*batch size"]


def soft_orthogonality(weight: Weight, squared: bool = False, remove_floor: bool = False) -> Scalar:
    r"""SO, $\|I - W^\top W\|_F$ (Ju, 2025), or its square (Bansal et al., 2018): 0 for orthonormal columns.

    Not squared, it is not smooth where it vanishes: there the gradient is 0.

    Args:
        weight: A real matrix `(out, in)`, or a batch of them.
        squared: Square the norm.
        remove_floor: Subtract $\sqrt{\text{in}-\text{out}}$, which a wide weight cannot go below.
    """
    return _in_float32(lambda matrix: deviation.soft_orthogonality(matrix, squared, remove_floor), weight)


def double_sided_orthogonality(weight: Weight, squared: bool = False, remove_floor: bool = False) -> Scalar:
    r"""DSO, $\|I - W^\top W\|_F + \|I - WW^\top\|_F$ (Ju, 2025), or the sum of the squares.

    The larger Gram matrix is never formed: with $f = |\text{out}-\text{in}|$ its deviation is $\sqrt{s + f}$ if that of
    the smaller one is $\sqrt s$.

    Args:
        weight: A real matrix `(out, in)`, or a batch of them.
        squared: Square the norms.
        remove_floor: Subtract $\sqrt{|\text{out}-\text{in}|}$, which a weight that is not square cannot go below.
    """
    return _in_float32(lambda matrix: deviation.double_sided_orthogonality(matrix, squared, remove_floor), weight)


def srip(weight: Weight, steps: int = 2, start: Tensor | None = None, squared: bool = False) -> Scalar:
    r"""SRIP, $\sigma=\max_i|\sigma_i^2 - 1|$: the spectral norm of $WW^\top - I$ on the smaller side, or its square.

    By power iteration, without forming the Gram matrix: from `start` $v$, `(*batch, min(out, in))`,
    `steps` times $v \leftarrow (WW^\top - I)\,v$, normalized. The estimate is at most $\sigma$ and grows with `steps`;
    `OrthogonalityPenalty` starts from the direction it found last, and converges along a training.

    The gradient $u\,(W^\top v)^\top + v\,(W^\top u)^\top$, $u$ the last direction and $v$ the one before, takes both as
    constants, which is exact at convergence. A gradient that is to be differentiated again (`create_graph`,
    `torch.func`) is that of $\sigma$ itself, by eigenvectors of the Gram matrix; if two of its eigenvalues are exactly
    equal, second derivatives are nan.

    What Bansal et al. (2018) published differs. It forms the Gram matrix of the columns also where there are fewer
    rows; then $W^\top W - I$ has the eigenvalue $-1$, and the norm it estimates is at least 1 whatever the weight is.
    It starts at random, anew at every call, differentiates through both power steps, and is squared.

    Args:
        weight: A real matrix `(out, in)`, or a batch of them.
        steps: Number of power steps, at least 1.
        start: $v$, `(*batch, min(out, in))`; by default $\sin i^2$, $i = 1, 2, \dots$: no randomness.
        squared: Square the norm.
    """

    def estimate(matrix: Tensor) -> Tensor:
        norm, _ = deviation_along(matrix, spectral_direction(matrix, steps - 1, start))
        return norm.square() if squared else norm

    if steps < 1:
        raise ValueError(f"power iteration takes at least one step, got steps={steps}")
    return _in_float32(estimate, weight)


def mutual_coherence(weight: Weight) -> Scalar:
    r"""$\max_{i\ne j} |\cos(w_i, w_j)|$ over the rows of a wide or square weight, the columns of a tall one.

    0 for orthogonal vectors of any lengths. The gradient is that of one pair that attains the maximum (a
    subgradient), so a step moves two vectors of the weight.

    Args:
        weight: A real matrix `(out, in)`, or a batch of them.
    """
    return _in_float32(lambda matrix: deviation.mutual_coherence(deviation.smaller_side(matrix)), weight)


def _in_float32(penalty: Callable[[Tensor], Tensor], weight: Tensor) -> Tensor:
    """Compute in float32 at least: in half precision a Gram matrix has an error of 1%."""
    if not weight.is_floating_point():
        raise TypeError(
            f"a penalty needs a weight of real floating-point numbers, got {weight.dtype}: convert it first"
        )
    if weight.ndim < 2:
        raise ValueError(f"a penalty needs a matrix (out, in), got shape {tuple(weight.shape)}: reshape the weight")
    with full_precision(weight.device.type):
        return penalty(weight.to(computing_dtype(weight.dtype)))


def deviation_along(matrix: Weight, direction: Direction) -> tuple[Float[Tensor, "*batch"], Direction]:
    r"""$\|Sv\|$ for a unit vector $v$ on the smaller side, and the unit vector along $Sv$, which takes no gradient."""
    norm, unit, _ = _DeviationAlong.apply(smaller_side(matrix), direction)
    return norm, unit


@torch.no_grad()
def spectral_direction(matrix: Weight, steps: int, start: Direction | None = None) -> Direction:
    r"""The unit vector after `steps` power steps $v \leftarrow Sv/\|Sv\|$ on the smaller side, from `start`.

    $S = WW^\top - I$ for a wide or square $W$. Where $Sv = 0$, an orthonormal weight, the result is 0.
    """
    side = smaller_side(matrix)
    if start is None:
        # Weyl: as evenly spread as random numbers, but the same everywhere.
        start = torch.arange(1, side.shape[-2] + 1, dtype=side.dtype, device=side.device).square().sin()
    elif start.shape[-1] != side.shape[-2]:
        raise ValueError(
            f"the start vector has {start.shape[-1]} entries, a weight of shape {tuple(matrix.shape)} needs"
            f" {side.shape[-2]}, the smaller of its two last sizes"
        )
    direction = _unit(start.to(side).expand(side.shape[:-1]))[0]
    for _ in range(steps):
        direction = _unit(_image(side, direction)[0])[0]
    return direction


class _DeviationAlong(torch.autograd.Function):
    r"""$\sigma = \|Sv\| = u^\top S v$ with $u = Sv/\sigma$; also returns $u$ and $W^\top v$, kept for the gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor, direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        image, pulled, scale = _image(matrix, direction)
        unit, norm = _unit(image)
        return (norm * scale).squeeze(-1), unit, pulled

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1], output[2])
        ctx.save_for_backward(*inputs, output[1], output[2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        matrix, direction, unit, pulled = ctx.saved_tensors
        gradient = gradient[..., None, None]
        if torch.is_grad_enabled():
            # To be differentiated again: the eigenvector must follow the matrix.
            vector, sign = _leading_eigenvector(gram_error(matrix))
            return 2 * gradient * sign * vector @ (vector.mT @ matrix), None
        left = torch.stack([unit, direction], -1)
        right = torch.stack([pulled, (unit.unsqueeze(-2) @ matrix).squeeze(-2)], -2)
        return gradient * left @ right, None


def _image(matrix: Tensor, direction: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    r"""$Sv/c$, $W^\top v$ and $c = \max(1, \|W^\top v\|_1)$, without which $Sv$ overflows before its gradient."""
    pulled = direction.unsqueeze(-2) @ matrix
    scale = torch.linalg.vector_norm(pulled, ord=1, dim=-1).clamp(min=1)
    image = ((pulled / scale.unsqueeze(-1)) @ matrix.mT).squeeze(-2) - direction / scale
    return image, pulled.squeeze(-2), scale


def _unit(vector: Tensor) -> tuple[Tensor, Tensor]:
    """The vector over its length, and the length; the zero vector stays zero."""
    tiny = torch.finfo(vector.dtype).tiny
    # Over the sum of its entries first: squares overflow, and vanish, where lengths do not.
    total = torch.linalg.vector_norm(vector, ord=1, dim=-1, keepdim=True)
    scaled = vector / total.clamp(min=tiny)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / length.clamp(min=tiny), length * total


def _leading_eigenvector(symmetric: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvector, as a column, of the eigenvalue of largest size, and the sign of that."""
    values, vectors = torch.linalg.eigh(symmetric)
    place = values.abs().argmax(-1, keepdim=True)
    return vectors.take_along_dim(place.unsqueeze(-2), -1), values.take_along_dim(place, -1).sign().unsqueeze(-1)
