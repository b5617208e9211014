"""Descent without a retraction: a tangent step, then a step of attraction to the manifold, by products only."""

from typing import final

import torch
from torch import Tensor

from orthoscope.optim._batching import Stack, frame_product, stacks
from orthoscope.optim._mixed import MixedSGD
from orthoscope.optim._validation import Group
from orthoscope.optim.manifold_groups import check_landing


@final
class Landing(MixedSGD):
    r"""`torch.optim.SGD` for groups without a manifold; weights $X$ on one are attracted to it instead of retracted.

    With $M$ the momentum of ambient gradients, as in SGD,

    $$ D = \operatorname{grad}_X M, \qquad Y = X - \min(\eta, \rho / \|D\|_F)\, D, \qquad E = Y^\top Y - I, $$
    $$ X \leftarrow Y\left(I - \tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 + \tfrac{35}{128}E^4\right), \qquad
       \rho = \varepsilon^{1/10} $$

    The term $-\tfrac12YE$ is the step of length $\tfrac12$ down $\nabla\tfrac14\|Y^\top Y - I\|^2 = YE$ of the landing
    algorithm (Ablin and Peyré, 2022; taken after the tangent step, as here, by Javaloy and Vergari, 2026); the others
    raise its order from two to five. Near the manifold the new $\|X^\top X - I\|$ is $\tfrac{63}{128}\|E\|^5$ and
    $\|E\| \le \rho^2$ (0.04 in single, 0.0007 in double precision), which is a rounding error: $\rho$ is the safe step
    length, and a longer step is shortened to it.

    A weight need not start on the manifold: the set $\|X^\top X - I\|_2 \le \tfrac12$ is never left, and weights in it
    land within a few steps. A weight overwritten later may be anywhere. Singular values below 1 grow by up to 2.46 per
    step and not past 1; if $\|X\|_F^2 > 2k$ (in the set it is at most $\tfrac32k$), $X$ is first divided by $\|X\|_F$.
    No finite weight becomes nan. There is no factorization and no synchronization with the host: four products per
    step, and two of $k \times k$.

    Args:
        params: Parameters or groups; see `stiefel_parameter_groups` and `MixedOptimizer`.
        lr: $\eta$.
        momentum: As in `torch.optim.SGD`.
        dampening: As in `torch.optim.SGD`.
        weight_decay: For groups without a manifold; must be 0 on one.
        nesterov: Use Nesterov's momentum.
        maximize: Ascend instead of descend.
    """

    def _check_start(self, group: Group, parameter: Tensor) -> None:
        check_landing(group, parameter)

    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None:
        for stack in stacks(parameters, group["batched"], lambda p: "momentum_buffer" in self.state[p]):
            x = _bounded(stack.frames(stack.parameters))
            direction = group["manifold"].riemannian_gradient_(x, self._ambient_direction(group, stack))
            safe = torch.finfo(x.dtype).eps ** (1 / 10) / torch.linalg.matrix_norm(direction, keepdim=True)
            moved = torch.addcmul(x, direction, safe.clamp(max=group["lr"]).to(x.dtype), value=-1)
            stack.write(_attracted(moved), stack.parameters)

    def _ambient_direction(self, group: Group, stack: Stack) -> Tensor:
        """The momentum, updated, as a tensor of its own."""
        gradient = stack.gradients()
        gradient = -gradient if group["maximize"] else gradient.clone()
        momentum = group["momentum"]
        if momentum == 0:
            return gradient
        buffers = self._momentum_buffers(stack)
        weight = 1 - group["dampening"] if stack.key else 1  # the first momentum is the gradient, as in torch
        m = stack.frames(buffers).mul_(momentum).add_(gradient, alpha=weight)
        stack.write(m, buffers)
        return gradient.add_(m, alpha=momentum) if group["nesterov"] else m.clone()


def _bounded(x: Tensor) -> Tensor:
    r"""$X / \|X\|_F$ where $\|X\|_F^2 > 2k$, else $X$ unchanged; without synchronization with the host."""
    norm = torch.linalg.matrix_norm(x, keepdim=True)
    return x * torch.where(norm > (2 * x.shape[-1]) ** 0.5, norm.reciprocal(), 1)


def _attracted(y: Tensor) -> Tensor:
    r"""$Y\left(I - \tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 + \tfrac{35}{128}E^4\right)$ with $E = Y^\mathsf{H}Y - I$.

    The identity is added last: adding small to large costs one rounding, a product many.
    """
    e = y.mH @ y
    e.diagonal(dim1=-2, dim2=-1).sub_(1)
    square = e @ e
    series = square @ (35 / 128 * square - 5 / 16 * e) + 3 / 8 * square - e / 2
    return y + frame_product(y, series)
