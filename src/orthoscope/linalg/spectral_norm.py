"""The largest singular value of a matrix, estimated from below by a few products with vectors."""

import math

import torch
from torch import Tensor


def spectral_norm_estimate(matrix: Tensor, steps: int = 12) -> float:
    r"""$\max\|Av\|$ over $\|v\| = 1$ in the Krylov space of $A^\top A$ and a random vector, of `steps` dimensions.

    By Lanczos, with full reorthogonalisation, for real matrices, in float32 at least. From below: for Gaussian matrices
    and for singular values that fall geometrically 8 steps came to 0.97 of $\|A\|$ or nearer and 12 to 0.98, where
    12 of a power iteration come to 0.96. Infinite or nan if an entry is; 0 of a zero matrix.
    """
    scale = float(matrix.abs().amax()) if matrix.numel() else 0.0
    if not 0 < scale < math.inf:
        return scale
    # At the scale of the largest entry no square overflows or vanishes.
    matrix = matrix.to(torch.promote_types(matrix.dtype, torch.float32)) / scale
    generator = torch.Generator().manual_seed(0)
    vector = torch.randn(matrix.shape[-1], generator=generator, device="cpu").to(matrix)
    steps = min(steps, matrix.shape[-1])
    basis, images = vector.new_zeros(steps, len(vector)), vector.new_empty(steps, len(matrix))
    size = torch.linalg.vector_norm(vector)
    for known in range(steps):
        length = torch.linalg.vector_norm(vector)
        # What is left of an invariant space is rounding, and no direction: without asking, so that no device waits.
        basis[known] = torch.where(length > 10 * torch.finfo(vector.dtype).eps * size, vector / length, 0.0)
        torch.mv(matrix, basis[known], out=images[known])
        vector = matrix.mT @ images[known]
        size = torch.linalg.vector_norm(vector)
        for _ in range(2):
            vector -= (basis[: known + 1] @ vector) @ basis[: known + 1]
    inner = images.double() @ images.double().mT
    return scale * math.sqrt(max(0.0, float(torch.linalg.eigvalsh(inner)[-1])))
