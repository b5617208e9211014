"""Eigenvalues and singular values in float64, many matrices at a time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.linalg.frames import sample_frame


def singular_values(matrix: Float[Tensor, "*batch rows columns"]) -> Float[Tensor, "*batch rank"]:
    """All min(rows, columns) singular values, largest first, in float64.

    A matrix much longer than wide is first rotated into its own span, which keeps the values.
    """
    short = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.mT
    if short.shape[-1] > 2 * short.shape[-2]:
        short = sample_frame(short)
    return _over_threads(torch.linalg.svdvals, short.double())


def gram_spectrum(frame: Float[Tensor, "*batch samples units"]) -> Float[Tensor, "*batch samples"]:
    """Eigenvalues of $FF^\\top$, largest first, never negative: squared singular values, at half the cost.

    Absolute error about eps·λ₁: right for entropies, ranks and norms, wrong for a determinant.
    """
    rows = frame.double()
    return _over_threads(torch.linalg.eigvalsh, rows @ rows.mT).flip(-1).clamp_min(0)


def _over_threads(spectrum: Callable[[Tensor], Tensor], matrices: Tensor) -> Tensor:
    """Apply `spectrum` to a stack; on a CPU the stack is shared out over the cores.

    LAPACK runs a stack of small matrices one after another on one core, and releases Python's lock.
    """
    threads = torch.get_num_threads()
    if matrices.ndim == 2 or matrices.device.type != "cpu" or threads == 1 or matrices.requires_grad:
        return spectrum(matrices)
    stack = matrices.flatten(end_dim=-3)
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(spectrum, stack.tensor_split(threads)))
    return torch.cat(parts).unflatten(0, matrices.shape[:-2])
