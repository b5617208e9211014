r"""Representations of a residual network whose block Jacobians share their singular vectors."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source

# Directions must be orthonormal up to the rounding of whatever made them; a float32 frame is welcome.
ORTHONORMAL = 1e-5


@source(
    "li2023",
    "Theorem 3.1, equation (1) (corrected)",
    assumes="pre-activation residual network, exactly linear blocks, J_i = U diag(s_i) Uᵀ with one U for all blocks",
)
def aligned_representations(
    initial: Float[Tensor, "units"],
    directions: Float[Tensor, "units rank"],
    singular_values: Float[Tensor, "layers rank"],
) -> Float[Tensor, "representations units"]:
    r"""The input $h_1$ of the first block and the output of every one, $h_{i+1} = (I + US_iU^\top)h_i$.

    $$ h_k = h_1 + \sum_r \Big(\prod_{i<k}(1+s_{ir}) - 1\Big)\, u_r u_r^\top h_1, \qquad k = 1, \dots, L+1 $$

    What is orthogonal to the directions passes unchanged; the printed form loses it. For one direction and
    $s_i = 1/i$ this is $h_k = h_1 + (k-1)\,uu^\top h_1$: points on a line, equally far apart.
    """
    frame = directions.double()
    units, rank = frame.shape
    excess = float((frame.mT @ frame - torch.eye(rank, dtype=frame.dtype)).abs().max()) if rank else 0.0
    if not excess < ORTHONORMAL:
        raise ValueError(
            f"directions must be {rank} orthonormal columns of {units} units, but UᵀU is {excess:.3g} from the "
            "identity: orthonormalise them, for example with torch.linalg.qr"
        )
    start = initial.double()
    none = torch.zeros(1, rank, dtype=frame.dtype)
    # Σ log(1+s) would lose s = −1, a block that erases its direction.
    growth = torch.cat([none, (1 + singular_values.double()).cumprod(0) - 1])
    return start + (growth * (frame.mT @ start)) @ frame.mT


@source(
    "li2023",
    "Theorem 3.1 (converse, derived for this library)",
    assumes="exactly linear blocks with shared singular vectors",
)
def equispacing_singular_values(depth: int, first: float = 1.0) -> Float[Tensor, "layers"]:
    r"""The only singular values, given the first, for which the representations are equally far apart.

    $$ \frac1{s_i} = \frac1{s_1} + i - 1, \qquad i = 1, \dots, L $$

    The step of block $i$ is $s_i\prod_{j<i}(1+s_j)$ times the first coefficient: constant if and only if $s_i$
    is as above. So $1/s_i$ is linear in depth *with slope 1*; $s_1 = 1$ is the law $s_i = 1/i$ of the paper.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1 block, got {depth}")
    if not first > 0:
        raise ValueError(f"the first singular value must be positive, got {first}")
    return 1 / (1 / first + torch.arange(depth, dtype=torch.float64))
