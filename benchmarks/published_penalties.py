"""Orthogonality penalties as they were published, written anew from their formulas, for comparison."""

import torch
from torch import Tensor


def soft(matrix: Tensor) -> Tensor:
    r"""$\|I - W^\top W\|_F$ (Ju, 2025; Bansal et al., 2018), the Gram matrix of the columns formed."""
    return torch.linalg.matrix_norm(torch.eye(matrix.shape[1], dtype=matrix.dtype) - matrix.mT @ matrix)


def double_sided(matrix: Tensor) -> Tensor:
    r"""$\|I - W^\top W\|_F + \|I - WW^\top\|_F$ (Ju, 2025), both Gram matrices formed."""
    return soft(matrix) + soft(matrix.mT)


def srip(matrix: Tensor, start: Tensor, steps: int = 2) -> Tensor:
    r"""$\|(W^\top W - I) u\| / \|u\|$ after power steps on $u$ (Bansal et al., 2018: two), differentiated through."""
    deviation = matrix.mT @ matrix - torch.eye(matrix.shape[1], dtype=matrix.dtype)
    vector = start
    for _ in range(steps - 1):
        vector = torch.nn.functional.normalize(deviation @ vector, dim=0)
    return torch.linalg.vector_norm(deviation @ vector) / torch.linalg.vector_norm(vector)
