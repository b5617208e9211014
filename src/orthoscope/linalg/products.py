"""Products of matrices added to a matrix, of one matrix or of a stack."""

import torch
from torch import Tensor

from orthoscope.linalg.transformed import is_transformed


def add_product_(target: Tensor, left: Tensor, right: Tensor, alpha: float = 1.0, beta: float = 1.0) -> Tensor:
    r"""$T \leftarrow \beta T + \alpha AB$ without a temporary; `target` is $(m, n)$ or $(\text{batch}, m, n)$."""
    if target.stride(-1) != 1 and target.stride(-2) == 1:
        # Stacked products into a transposed target are six times slower than (AB)ᵀ = BᵀAᵀ into a plain one.
        return add_product_(target.mT, right.mT, left.mT, alpha, beta).mT
    if target.ndim == 2:
        return target.addmm_(left, right, alpha=alpha, beta=beta)
    return target.baddbmm_(left, right, alpha=alpha, beta=beta)


def sum_with_product(
    addend: Tensor, left: Tensor, right: Tensor, out: Tensor | None = None, alpha: float = 1.0, beta: float = 1.0
) -> Tensor:
    r"""$\beta C + \alpha AB$, in `out` if given, which is none of the three. One call: a copy and a sum are two."""
    add = torch.addmm if addend.ndim == 2 else torch.baddbmm
    if out is None:
        return add(addend, left, right, alpha=alpha, beta=beta)
    if any(map(is_transformed, (addend, left, right))):
        # Torch cannot follow what is written to a place.
        return out.copy_(add(addend, left, right, alpha=alpha, beta=beta))
    if out.stride(-1) != 1 and out.stride(-2) == 1:
        return sum_with_product(addend.mT, right.mT, left.mT, out.mT, alpha, beta).mT
    return add(addend, left, right, alpha=alpha, beta=beta, out=out)


def plus_scaled_(target: Tensor, product: Tensor, scale: float) -> Tensor:
    r"""$T \leftarrow T + sP$ for what was just multiplied, which is given up.

    Not `add_(product, alpha=scale)`: torch 2.13's compiler makes one product of the two for a CPU and forgets `alpha`.
    """
    return target.add_(product.mul_(scale))


def plus_adjoint(square: Tensor) -> Tensor:
    r"""$S + S^\mathsf{H}$."""
    # The copy first: reading a large matrix by columns is what costs, and costs three times more inside a sum.
    return square.mH.clone(memory_format=torch.contiguous_format).add_(square)


def skew_part(square: Tensor) -> Tensor:
    r"""$(S - S^\mathsf{H})/2$."""
    return scaled_skew_part(square, 1.0)


def scaled_skew_part(square: Tensor, scale: float) -> Tensor:
    r"""$s(S - S^\mathsf{H})/2$."""
    return square.mH.clone(memory_format=torch.contiguous_format).sub_(square).mul_(-scale / 2)
