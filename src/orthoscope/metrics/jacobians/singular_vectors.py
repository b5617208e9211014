"""RA2: the singular vectors of one block's Jacobian diagonalise another's."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

# Over blocks i and j, and then over samples; nan where i and j do not act on the same space.
Grid = Float[Tensor, "blocks blocks samples"]
GridOfMatrices = Float[Tensor, "blocks blocks samples count count"]


@runtime_checkable
class Operator(Protocol):
    """A linear map known by its products."""

    @property
    def shape(self) -> tuple[int, int]: ...

    def multiply(self, vectors: Tensor) -> Tensor: ...


@runtime_checkable
class Jacobian(Protocol):
    """What `orthoscope.probe.residual_jacobians` returns, as far as it is looked at here."""

    @property
    def name(self) -> str: ...
    @property
    def singular_values(self) -> Float[Tensor, "samples count"]: ...
    @property
    def left(self) -> Float[Tensor, "samples outputs count"]: ...
    @property
    def right(self) -> Float[Tensor, "samples inputs count"]: ...
    @property
    def operator(self) -> Operator: ...
    @property
    def energy(self) -> Float[Tensor, "samples"]: ...


def alignment_matrices(jacobians: Sequence[Jacobian], count: int = 10) -> tuple[GridOfMatrices, GridOfMatrices]:
    r"""$|U_j^\top J_i V_j|$ and $|V_j^\top J_i U_j|$ at $(i, j)$, with the $K$ first singular vectors of block $j$.

    Both are diagonal, with the singular values of $J_i$, if all blocks share their singular vectors and $J_i$ is
    symmetric; the second is what tells $U_j = V_j$ from the rest. Blocks on spaces of different sizes give nan.
    """
    count = min([count, *(jacobian.singular_values.shape[-1] for jacobian in jacobians)])
    blocks, samples = len(jacobians), len(jacobians[0].singular_values)
    forward = torch.full((blocks, blocks, samples, count, count), torch.nan, dtype=torch.float64)
    reverse = forward.clone()
    for i, one in enumerate(jacobians):
        for j, other in enumerate(jacobians):
            if one.operator.shape != other.operator.shape:
                continue
            left, right = other.left[..., :count], other.right[..., :count]
            if one.operator.shape[0] != one.operator.shape[1]:
                forward[i, j] = _sandwiched(left, one.operator.multiply(right))
                continue
            images = one.operator.multiply(torch.cat([right, left], dim=-1))
            forward[i, j] = _sandwiched(left, images[..., :count])
            reverse[i, j] = _sandwiched(right, images[..., count:])
    return forward, reverse


def misalignment(matrices: GridOfMatrices, singular_values: Float[Tensor, "blocks samples count"]) -> Grid:
    r"""$\bigl\||U_j^\top J_i V_j| - S_i\bigr\|_F/\|S_i\|_F$: 0 for shared singular vectors, 1 for unrelated ones.

    $S_i$ has the $K$ largest singular values of $J_i$. nan where $J_i$ or $J_j$ is zero: a dead block has no vectors.
    """
    count = matrices.shape[-1]
    values = singular_values[..., :count].double().cpu()
    target = torch.diag_embed(values).unsqueeze(1)
    size = torch.linalg.vector_norm(values, dim=-1)
    distance = torch.linalg.matrix_norm(matrices - target) / size.unsqueeze(1)
    alive = size > 0
    return torch.where(alive.unsqueeze(1) & alive.unsqueeze(0), distance, torch.nan)


def _sandwiched(left: Tensor, image: Tensor) -> Float[Tensor, "samples count count"]:
    return (left.double().mT @ image.double()).abs().cpu()
