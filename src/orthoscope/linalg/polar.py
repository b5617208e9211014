"""The orthonormal matrix nearest to a given one, and how far a matrix is from being orthonormal."""

import torch
from torch import Tensor


def polar_factor(matrix: Tensor) -> Tensor:
    r"""The nearest matrix with orthonormal columns (rows, if wide): $UV^\mathsf{H}$ for $M = U\Sigma V^\mathsf{H}$.

    Computed in double precision and returned in the type of `matrix`. Where $M$ is rank deficient the
    nearest matrix is not unique; one of them is returned. A matrix that is not finite gives nan.
    """
    precise = matrix.to(torch.promote_types(matrix.dtype, torch.float64))
    finite = precise.isfinite().all(-1).all(-1)[..., None, None]
    left, _, right = torch.linalg.svd(precise.where(finite, 0), full_matrices=False)
    return (left @ right).where(finite, torch.nan).to(matrix.dtype)


def orthonormality_error(matrix: Tensor) -> Tensor:
    r"""$\max_{ij} |W^\mathsf{H}W - I|_{ij}$ on the smaller side of $W$, in double precision; nan if $W$ has one."""
    frame = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mT
    frame = frame.to(torch.promote_types(frame.dtype, torch.float64))
    identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
    return (frame.mH @ frame - identity).abs().amax((-2, -1))
