r"""The spectral norm of $S = WW^\top - I$ by power iteration, without forming $S$; what `penalties.srip` documents."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.metrics.deviation import gram_error, smaller_side

Matrix = Float[Tensor, "*batch out fan_in"]
Direction = Float[Tensor, "*batch size"]


def deviation_along(matrix: Matrix, direction: Direction) -> tuple[Float[Tensor, "*batch"], Direction]:
    r"""$\|Sv\|$ for a unit vector $v$ on the smaller side, and the unit vector along $Sv$, which takes no gradient."""
    norm, unit, _ = _DeviationAlong.apply(smaller_side(matrix), direction)
    return norm, unit


@torch.no_grad()
def spectral_direction(matrix: Matrix, steps: int, start: Direction | None = None) -> Direction:
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
