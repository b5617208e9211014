"""Descent that needs no retraction: a tangent step, then a step towards the manifold, products only."""

from typing import Any, final

import torch
from torch import Tensor

from orthoscope.linalg.gram_series import corrected, gram_excess
from orthoscope.optim.batching import Chunk, chunks, gradients, over_chunks
from orthoscope.optim.manifold_groups import check_landing
from orthoscope.optim.mixed import Group, MixedOptimizer
from orthoscope.optim.riemannian_sgd import euclidean_sgd_step, momentum_buffers, sgd_defaults


@final
class Landing(MixedOptimizer):
    r"""`torch.optim.SGD` for groups without a manifold; weights $X$ on one are attracted to it instead of retracted.

    With $M$ the momentum of ambient gradients, as SGD keeps it,

    $$ D = \operatorname{grad}_X M, \qquad Y = X - \min(\eta, \rho / \|D\|_F)\, D, \qquad E = Y^\top Y - I, $$
    $$ X \leftarrow Y\left(I - \tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 + \tfrac{35}{128}E^4\right), \qquad
       \rho = \varepsilon^{1/10} $$

    The term $-\tfrac12YE$ is the step of length $\tfrac12$ down $\nabla\tfrac14\|Y^\top Y - I\|^2 = YE$ of the landing
    algorithm (Ablin and Peyré, 2022; taken after the tangent step, as here, by Javaloy and Vergari, 2026); the others
    raise its order from two to five. Near the manifold the new excess is $\tfrac{63}{128}\|E\|^5$ and
    $\|E\| \le \rho^2$ (0.04 in single, 0.0007 in double precision), so it is a rounding error: $\rho$ is the safe step
    length, and a step that is longer is shortened to it. (Only where $\eta$ times the normal part of the gradient
    exceeds about $10^4$ does a rounding of $X$ show in the next one.)

    A weight need not start on the manifold: all $\|X^\top X - I\|_2 \le \tfrac12$ stay there and land within a few
    steps. One that is overwritten later may be anywhere. Singular values below 1 grow by up to 2.46 a step and not past
    1; where $\|X\|_F^2 > 2k$ (with the above it is at most $\tfrac32k$) $X$ is first divided by $\|X\|_F$, which brings
    all of them there. No finite weight becomes nan. Nothing is factorised and nothing waits for the device: four
    products a step, and two of $k \times k$.

    `lr` is $\eta$; `momentum`, `dampening` and `nesterov` as in `torch.optim.SGD`; see `MixedOptimizer` for groups.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, sgd_defaults(lr, momentum, dampening, weight_decay, nesterov, maximize))

    def _check_start(self, group: Group, parameter: Tensor) -> None:
        check_landing(group, parameter)

    def _euclidean_step(self, group: Group, parameters: list[Tensor]) -> None:
        euclidean_sgd_step(self.state, group, parameters)

    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None:
        state = self.state

        def step(chunk: Chunk) -> None:
            x = _bounded_(chunk.frames(chunk.parameters))
            direction = group["manifold"].riemannian_gradient_(x, self._ambient_direction(group, chunk))
            safe = torch.finfo(x.dtype).eps ** (1 / 10) / torch.linalg.matrix_norm(direction, keepdim=True)
            moved = torch.addcmul(x, direction, safe.clamp(max=group["lr"]).to(x.dtype), value=-1)
            chunk.write(corrected(moved, gram_excess(moved), 4, out=x), chunk.parameters)

        over_chunks(step, chunks(parameters, group["batched"], lambda p: "momentum_buffer" in state[p]))

    def _ambient_direction(self, group: Group, chunk: Chunk) -> Tensor:
        gradient = chunk.frames(gradients(chunk.parameters))
        gradient = -gradient if group["maximize"] else gradient.clone()
        momentum = group["momentum"]
        if momentum == 0:
            return gradient
        buffers = momentum_buffers(self.state, chunk)
        weight = 1 - group["dampening"] if chunk.alike else 1  # the first momentum is the gradient, as in torch
        m = chunk.frames(buffers).mul_(momentum).add_(gradient, alpha=weight)
        chunk.write(m, buffers)
        return gradient.add_(m, alpha=momentum) if group["nesterov"] else m.clone()


def _bounded_(x: Tensor) -> Tensor:
    r"""$X / \|X\|_F$ where $\|X\|_F^2 > 2k$, else $X$, bit for bit; without a wait for the device."""
    norm = torch.linalg.matrix_norm(x, keepdim=True)
    return x.mul_(torch.where(norm > (2 * x.shape[-1]) ** 0.5, norm.reciprocal(), 1))
