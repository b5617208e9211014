"""The orthonormal matrix nearest to a given one, and how far a matrix is from being orthonormal."""

import torch
from torch import Tensor

from orthoscope.linalg.polar_derivative import differentiable_polar_factor
from orthoscope.linalg.polar_newton import newton_polar_factor
from orthoscope.linalg.polar_refinement import refined_polar_factor
from orthoscope.linalg.polar_zolotarev import zolotarev_polar_factor
from orthoscope.linalg.precision import full_precision
from orthoscope.linalg.svd import svd
from orthoscope.linalg.transformed import is_only_differentiated, is_transformed

# From this size of the small side on, products and inverses are faster than a decomposition.
_ITERATIVE_SIDE = 256

# Condition numbers between which a decomposition in float64 is corrected: below, the error is
# 1e-11 or less; above, the correction is too long for one step.
_CORRECTED = (1e4, 1e11)


def polar_factor(matrix: Tensor) -> Tensor:
    r"""The nearest matrix with orthonormal columns (rows, if wide): $UV^\mathsf{H}$ for $M = U\Sigma V^\mathsf{H}$.

    Exact: the largest error of an entry, and the relative one in the Frobenius norm, are below $10^{-6}$ in float32
    for condition numbers up to $10^4$ and more (beyond $2\cdot10^4$ below $10^{-5}$ if roundings add up, as with
    singular vectors from a Hadamard matrix), and below $10^{-10}$ in float64 up to $10^8$ (real, plain
    tensors, where no derivative is asked for and no mode of torch looks on; else the error is $10^{-16}$ times the
    condition number). Narrower types are computed in
    float32 or better and rounded once. Where $M$ is rank deficient the nearest matrix is not unique; one of
    them is returned, orthonormal in every case. A matrix that is not finite gives nan, and its neighbours in the batch
    are not touched. Differentiable where $M$ has full rank; twice, and by `torch.func`, where no two singular values
    are equal.
    """
    _check(matrix)
    if matrix.shape[-2] < matrix.shape[-1]:
        return polar_factor(matrix.mT).mT.contiguous()
    if matrix.is_complex() or is_transformed(matrix):
        return _from_singular_vectors(matrix, corrected=False)
    if matrix.dtype == torch.float64 or matrix.shape[-1] < _ITERATIVE_SIDE:
        return _from_singular_vectors(matrix, corrected=matrix.dtype == torch.float64)
    with full_precision(matrix.device.type):
        frames = [_single_precision(each) for each in matrix.reshape(-1, *matrix.shape[-2:])]
    if not frames:
        return matrix.clone()
    frame = frames[0] if len(frames) == 1 else torch.stack(frames)
    return frame.view(matrix.shape).to(matrix.dtype)


def _check(matrix: Tensor) -> None:
    if not torch.is_tensor(matrix):
        raise TypeError(f"needs a tensor, got {type(matrix).__name__}: convert it with torch.as_tensor")
    if matrix.layout != torch.strided:
        raise TypeError(f"needs dense matrices, got {matrix.layout}: convert it with .to_dense()")
    if matrix.ndim < 2:
        raise ValueError(f"needs matrices (*batch, rows, columns), got shape {tuple(matrix.shape)}: reshape it")
    if not (matrix.is_floating_point() or matrix.is_complex()):
        raise TypeError(f"needs floating or complex matrices, got {matrix.dtype}: convert it with .float()")


def _single_precision(matrix: Tensor) -> Tensor:
    frame = zolotarev_polar_factor(matrix)
    # Not finite: the largest entry is not either, and comparing with nan is false.
    if frame is None and matrix.abs().amax() < torch.inf:
        frame = newton_polar_factor(matrix)
    return _from_singular_vectors(matrix, corrected=False).float() if frame is None else frame


def _from_singular_vectors(matrix: Tensor, corrected: bool) -> Tensor:
    precise = matrix.to(torch.promote_types(matrix.dtype, torch.float64))
    finite = precise.isfinite().all(-1).all(-1)[..., None, None]
    precise = precise.where(finite, 0)
    if is_only_differentiated(precise):
        return differentiable_polar_factor(precise).where(finite, torch.nan).to(matrix.dtype)
    left, values, right = svd(precise)
    frame = left @ right
    if corrected and values.numel():
        condition = values[..., 0] / values[..., -1]
        which = (condition > _CORRECTED[0]) & (condition < _CORRECTED[1])
        if bool(which.any()):
            frame[which] = refined_polar_factor(precise[which], frame[which], values[which], right[which].mT)
    return frame.where(finite, torch.nan).to(matrix.dtype)


def orthonormality_error(matrix: Tensor) -> Tensor:
    r"""$\max_{ij} |W^\mathsf{H}W - I|_{ij}$ on the smaller side of $W$, in double precision; nan if $W$ has one."""
    frame = matrix if matrix.shape[-2] >= matrix.shape[-1] else matrix.mT
    frame = frame.to(torch.promote_types(frame.dtype, torch.float64))
    identity = torch.eye(frame.shape[-1], dtype=frame.dtype, device=frame.device)
    return (frame.mH @ frame - identity).abs().amax((-2, -1))
