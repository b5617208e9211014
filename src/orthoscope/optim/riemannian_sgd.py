"""Stochastic gradient descent along a manifold, with momentum that is transported."""

from typing import Any, final

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from orthoscope.linalg.nearest_frame import nearest_frame
from orthoscope.linalg.products import add_product_
from orthoscope.optim.batching import Chunk, chunks, gradients, over_chunks
from orthoscope.optim.manifold_groups import check_orthonormal
from orthoscope.optim.mixed import Group, MixedOptimizer
from orthoscope.optim.short_step import short_step_

# Steps that leave the excess of a frame as it is, and add about a rounding to it, between two that remove it. The
# first step removes what a weight starts with.
_SHORT_STEPS = 7


@final
class RiemannianSGD(MixedOptimizer):
    r"""`torch.optim.SGD` for groups without a manifold; for weights $X$ on one, with ambient gradient $G$:

    1. ambient gradient $G$,
    2. projection: $m \leftarrow \mu\,P_X(m) + (1 - \tau)\operatorname{grad}_X G$, where $P_X$ projects to the tangent
       space and transports the momentum, and $\operatorname{grad}_X$ is `riemannian_gradient`,
    3. move: $Y = X - \eta\, m$ (Nesterov: $X - \eta(\operatorname{grad}_X G + \mu m)$),
    4. retract: $X \leftarrow Y(Y^\top Y)^{-1/2}$, the polar retraction.

    In the Euclidean metric $P_X$ and $\operatorname{grad}_X$ are one linear map, so transport is free:
    $m \leftarrow P_X(\mu m + (1-\tau)G)$, and a step costs four products. The retraction is by products for ordinary
    steps and exact for steps of any length, so no learning rate leaves the manifold. Without momentum seven of eight
    steps, if they are short, take three products (`short_step_`); the eighth removes the roundings of all of them.

    `lr` is $\eta$, `momentum` $\mu$ and `dampening` $\tau$, as in `torch.optim.SGD`; see `MixedOptimizer` for groups.
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
        if group["momentum"] == 0:
            self._plain_step(group, parameters)
            return
        state = self.state

        def step(chunk: Chunk) -> None:
            x = chunk.frames(chunk.parameters)
            direction = self._direction(group, chunk, x)
            moved = torch.add(x, direction, alpha=-float(group["lr"]))
            chunk.write(nearest_frame(moved, out=x), chunk.parameters)

        over_chunks(step, chunks(parameters, group["batched"], lambda p: "momentum_buffer" in state[p]))

    def _plain_step(self, group: Group, parameters: list[Tensor]) -> None:
        manifold, state = group["manifold"], self.state
        rate = float(group["lr"]) * (-1 if group["maximize"] else 1)

        def step(chunk: Chunk) -> None:
            x, gradient = chunk.frames(chunk.parameters), chunk.frames(gradients(chunk.parameters))
            overlap = x.mH @ gradient
            may_be_short = manifold.metric == "euclidean" and chunk.alike != _SHORT_STEPS
            if not (may_be_short and short_step_(x, gradient, overlap, rate)):
                direction = add_product_(gradient.clone(), x, manifold.normal_coordinates(overlap), alpha=-1.0)
                nearest_frame(torch.add(x, direction, alpha=-rate), out=x)
            chunk.write(x, chunk.parameters)
            for parameter in chunk.parameters:
                # Also after a step that was not short: of a batch, only some matrices may have moved far.
                state[parameter]["short_steps"] = 0 if chunk.alike == _SHORT_STEPS else chunk.alike + 1

        taken = chunks(parameters, group["batched"], lambda p: int(state[p].get("short_steps", _SHORT_STEPS)))
        over_chunks(step, taken)

    def _direction(self, group: Group, chunk: Chunk, x: Tensor) -> Tensor:
        manifold, momentum = group["manifold"], group["momentum"]
        gradient = chunk.frames(gradients(chunk.parameters))
        sign = -1 if group["maximize"] else 1
        buffers = momentum_buffers(self.state, chunk)
        m = chunk.frames(buffers)
        weight = 1 - group["dampening"] if chunk.alike else 1  # the first momentum is the gradient, as in torch
        if manifold.metric == "euclidean" and not group["nesterov"]:
            direction = manifold.to_tangent_(x, m.mul_(momentum).add_(gradient, alpha=sign * weight))
        else:
            gradient = manifold.riemannian_gradient_(x, sign * gradient)
            direction = manifold.to_tangent_(x, m).mul_(momentum).add_(gradient, alpha=weight)
            if group["nesterov"]:
                direction = gradient.add_(m, alpha=momentum)
        chunk.write(m, buffers)
        return direction


def sgd_defaults(
    lr: float | Tensor, momentum: float, dampening: float, weight_decay: float, nesterov: bool, maximize: bool
) -> Group:
    """What a group of SGD holds unless it says otherwise."""
    if not momentum >= 0:
        raise ValueError(f"momentum must be at least 0, got {momentum}")
    if nesterov and (momentum <= 0 or dampening != 0):
        raise ValueError("Nesterov's momentum needs momentum > 0 and no dampening")
    return {
        "lr": lr,
        "momentum": momentum,
        "dampening": dampening,
        "weight_decay": weight_decay,
        "nesterov": nesterov,
        "maximize": maximize,
    }


def momentum_buffers(state: Any, chunk: Chunk) -> list[Tensor]:
    """The momentum of each parameter of a chunk, zero if it had none."""
    for parameter in chunk.parameters:
        if "momentum_buffer" not in state[parameter]:
            state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return [state[parameter]["momentum_buffer"] for parameter in chunk.parameters]


def euclidean_sgd_step(state: Any, group: Group, parameters: list[Tensor]) -> None:
    """`torch.optim.SGD` itself, with its state."""
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
