"""The largest trace of a product of matrices that may be rotated independently."""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source


@source(
    "miranda1993", "trace inequality; li2023, Theorem 2", assumes="real square matrices, rotations of determinant 1"
)
def rotated_trace_supremum(matrices: Float[Tensor, "*batch factors n n"]) -> Float[Tensor, "*batch"]:
    r"""The largest trace of $A_1P_1\cdots A_mP_m$ over all rotations $P_1, \dots, P_m$ of determinant 1.

    $$ \max_{P_j \in SO(n)} \operatorname{tr}(A_1P_1\cdots A_mP_m)
       = \sum_{i<n} \prod_j s_i(A_j) + \operatorname{sign}\det(A_1\cdots A_m) \prod_j s_n(A_j) $$

    with the singular values $s_1 \ge \dots \ge s_n$ of each factor. It is attained. If reflections are allowed
    too, the last sign is always $+$: von Neumann's inequality.
    """
    factors, size = matrices.shape[-3:-1]
    if factors < 1 or size < 1:
        raise ValueError(f"the trace needs at least one matrix of at least one row, got {factors} of size {size}")
    aligned = torch.linalg.svdvals(matrices.double()).prod(-2)
    # A singular factor has s_n = 0, so the sign that rounding gives its determinant does not matter.
    sign = torch.linalg.slogdet(matrices.double()).sign.prod(-1)
    return aligned[..., :-1].sum(-1) + sign * aligned[..., -1]
