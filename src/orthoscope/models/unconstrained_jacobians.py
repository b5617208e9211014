r"""The unconstrained Jacobians model of li2023: linear residual blocks whose matrices are the parameters themselves."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.models.blocks import require_positive


class UnconstrainedJacobians(nn.Module):
    r"""$z = w^\top \prod_i (I + J_i)\,\Delta x$ for every row $\Delta x$, in float64.

    The theorem is about the objective $\log(1 + e^{-yz}) + \tfrac\lambda2(\sum_i\|J_i\|_F^2 + \|w\|^2)$ of one example;
    `energy` is what $\tfrac\lambda2$ multiplies. Parameters begin Gaussian with standard deviation `weight_std`.
    """

    def __init__(
        self,
        *,
        depth: int,
        width: int,
        weight_std: float = 0.1,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        require_positive(depth=depth, width=width)
        drawn = weight_std * torch.randn(depth * width + 1, width, generator=generator, dtype=torch.float64)
        self.jacobians = nn.Parameter(drawn[:-1].reshape(depth, width, width).clone())
        self.head = nn.Parameter(drawn[-1].clone())

    def forward(self, inputs: Float[Tensor, "samples units"]) -> Float[Tensor, "samples"]:
        hidden = inputs.double()
        for jacobian in self.jacobians:
            hidden = hidden + hidden @ jacobian.mT
        return hidden @ self.head

    def energy(self) -> Float[Tensor, ""]:
        return self.jacobians.square().sum() + self.head.square().sum()
