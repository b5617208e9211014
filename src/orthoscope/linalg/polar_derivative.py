"""The polar factor that can be differentiated wherever the matrix has full rank, equal singular values included."""

from typing import Any

import torch
from torch import Tensor

from orthoscope.linalg.svd import svd


def differentiable_polar_factor(matrix: Tensor) -> Tensor:
    r"""$Q = UV^\mathsf{H}$ of a tall $M = U\Sigma V^\mathsf{H}$ in double precision; a gradient $G$ of $Q$ gives $M$

    $$ QV\,\frac{A - A^\mathsf{H}}{\sigma_i + \sigma_j}\,V^\mathsf{H} + (I - QQ^\mathsf{H})\,GV\Sigma^{-1}V^\mathsf{H},
       \qquad A = V^\mathsf{H}Q^\mathsf{H}GV. $$

    The derivative of a singular value decomposition has $\sigma_i - \sigma_j$ there, and no value where two are equal,
    as all of them are on the Stiefel manifold. Second derivatives are taken through it all the same: those need
    singular values that differ.
    """
    return _PolarFactor.apply(matrix)[0]


class _PolarFactor(torch.autograd.Function):
    @staticmethod
    def forward(matrix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        left, values, right = svd(matrix)
        return left @ right, values, right

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor, Tensor]) -> None:
        frame, values, right = output
        ctx.mark_non_differentiable(values, right)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, frame, values, right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: None) -> Tensor | None:
        matrix, frame, values, right = ctx.saved_tensors
        if grad is None:
            return None
        if torch.is_grad_enabled():
            left, _, right = torch.linalg.svd(matrix, full_matrices=False)
            (found,) = torch.autograd.grad(left @ right, matrix, grad, create_graph=True)
            return found
        along = frame.mH @ grad
        turned = right @ along @ right.mH
        turning = (turned - turned.mH) / (values.unsqueeze(-1) + values.unsqueeze(-2))
        leaving = (grad - frame @ along) @ right.mH / values.unsqueeze(-2)
        return (frame @ right.mH @ turning + leaving) @ right
