"""Stochastic gradient descent on a manifold, with transported momentum."""

from typing import Any, final

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from orthoscope.linalg import nearest_frame
from orthoscope.optim._batching import Stack, frame_product, gradients, stacks
from orthoscope.optim._mixed import MixedOptimizer
from orthoscope.optim._short_step import short_step_
from orthoscope.optim._validation import Group
from orthoscope.optim.manifold_groups import check_orthonormal

# Short steps between two retractions. A short step adds about one rounding error to XᵀX - I and removes none; the
# retraction removes all of it. The first step is a retraction, since a weight may start with such an error.
_SHORT_STEPS = 7


@final
class RiemannianSGD(MixedOptimizer):
    r"""`torch.optim.SGD` for groups without a manifold; Riemannian SGD for weights $X$ on one, ambient gradient $G$.

    1. project: $m \leftarrow \mu\,P_X(m) + (1 - \tau)\operatorname{grad}_X G$, where $P_X$ projects to the tangent
       space at $X$, which transports the momentum, and $\operatorname{grad}_X$ is `Stiefel.riemannian_gradient`,
    2. move: $Y = X - \eta\, m$ (Nesterov: $X - \eta(\operatorname{grad}_X G + \mu m)$),
    3. retract: $X \leftarrow Y(Y^\top Y)^{-1/2}$, the polar retraction.

    In the Euclidean metric $P_X$ and $\operatorname{grad}_X$ are the same linear map, so that transport is free:
    $m \leftarrow P_X(\mu m + (1-\tau)G)$, and a step costs four products. Without momentum, seven of eight short steps
    cost three (`short_step_`). The retraction is exact for steps of any length: no learning rate leaves the manifold.

    Args:
        params: Parameters or groups; see `stiefel_parameter_groups` and `MixedOptimizer`.
        lr: $\eta$.
        momentum: $\mu$.
        dampening: $\tau$; the first momentum is the whole gradient, as in torch.
        weight_decay: For groups without a manifold; must be 0 on one.
        nesterov: Use Nesterov's momentum.
        maximize: Ascend instead of descend.
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
        check_orthonormal(group, parameter)

    def _euclidean_step(self, group: Group, parameters: list[Tensor]) -> None:
        euclidean_sgd_step(self.state, group, parameters)

    def _manifold_step(self, group: Group, parameters: list[Tensor]) -> None:
        state = self.state
        if group["momentum"] == 0:
            taken = stacks(parameters, group["batched"], lambda p: int(state[p].get("short_steps", _SHORT_STEPS)))
            for stack in taken:
                self._plain_step(group, stack)
            return
        for stack in stacks(parameters, group["batched"], lambda p: "momentum_buffer" in state[p]):
            x = stack.frames(stack.parameters)
            moved = torch.add(x, self._direction(group, stack, x), alpha=-float(group["lr"]))
            stack.write(nearest_frame(moved), stack.parameters)

    def _plain_step(self, group: Group, stack: Stack) -> None:
        """One step without momentum; the stack's key is the number of short steps since the last retraction."""
        manifold, taken = group["manifold"], stack.key
        rate = float(group["lr"]) * (-1 if group["maximize"] else 1)
        x, gradient = stack.frames(stack.parameters), stack.gradients()
        overlap = x.mH @ gradient
        may_be_short = manifold.metric == "euclidean" and taken != _SHORT_STEPS
        if not (may_be_short and short_step_(x, gradient, overlap, rate)):
            direction = gradient - frame_product(x, manifold.normal_coordinates(overlap))
            x = nearest_frame(torch.add(x, direction, alpha=-rate))
        stack.write(x, stack.parameters)
        for parameter in stack.parameters:
            # Counted also if the whole stack was retracted because the step of one of its matrices was long.
            self.state[parameter]["short_steps"] = 0 if taken == _SHORT_STEPS else taken + 1

    def _direction(self, group: Group, stack: Stack, x: Tensor) -> Tensor:
        """The tangent vector to move along; updates the momentum."""
        manifold, momentum = group["manifold"], group["momentum"]
        gradient = stack.gradients()
        sign = -1 if group["maximize"] else 1
        buffers = momentum_buffers(self.state, stack)
        m = stack.frames(buffers)
        weight = 1 - group["dampening"] if stack.key else 1  # the first momentum is the gradient, as in torch
        if manifold.metric == "euclidean" and not group["nesterov"]:
            direction = manifold.to_tangent_(x, m.mul_(momentum).add_(gradient, alpha=sign * weight))
        else:
            gradient = manifold.riemannian_gradient_(x, sign * gradient)
            direction = manifold.to_tangent_(x, m).mul_(momentum).add_(gradient, alpha=weight)
            if group["nesterov"]:
                direction = gradient.add_(m, alpha=momentum)
        stack.write(m, buffers)
        return direction


def sgd_defaults(
    lr: float | Tensor, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool
) -> Group:
    """Default options of a group of SGD, checked."""
    if not momentum >= 0:
        raise ValueError(f"momentum must be at least 0, got {momentum}")
    if nesterov and (momentum <= 0 or dampening != 0):
        raise ValueError(
            f"Nesterov's momentum needs momentum > 0 and dampening 0, got momentum={momentum} and"
            f" dampening={dampening}: change them, or set nesterov=False"
        )
    return {
        "lr": lr,
        "momentum": momentum,
        "dampening": dampening,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
        "maximize": maximize,
    }


def momentum_buffers(state: Any, stack: Stack) -> list[Tensor]:
    """The momentum of each parameter of a stack, created as zeros if there is none."""
    for parameter in stack.parameters:
        if "momentum_buffer" not in state[parameter]:
            state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return [state[parameter]["momentum_buffer"] for parameter in stack.parameters]


def euclidean_sgd_step(state: Any, group: Group, parameters: list[Tensor]) -> None:
    """One step of `torch.optim.SGD`, with its state."""
    buffers = [state[parameter].get("momentum_buffer") for parameter in parameters]
    sgd(
        parameters,
        gradients(parameters),
        buffers,
        weight_decay=group["weight_decay"],
        momentum=group["momentum"],
        lr=group["lr"],
        dampening=group["dampening"],
        nesterov=group["nesterov"],
        maximize=group["maximize"],
        has_sparse_grad=False,
    )
    if group["momentum"] != 0:
        for parameter, buffer in zip(parameters, buffers, strict=True):
            state[parameter]["momentum_buffer"] = buffer
