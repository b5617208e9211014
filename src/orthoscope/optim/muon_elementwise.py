"""What a step does entry by entry, on lists of tensors: momentum before, decay and the move after, and AdamW."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from orthoscope.optim.matrix_views import MatrixView
from orthoscope.optim.muon_options import Group
from orthoscope.optim.update_scale import SCALES


class Tensors(NamedTuple):
    """What a group has a gradient for: `first` is Muon's momentum or AdamW's first moment."""

    parameters: list[Tensor]
    gradients: list[Tensor]
    first: list[Tensor]
    second: list[Tensor]
    steps: list[Tensor]
    views: list[tuple[Any, ...]]
    scales: list[float]


def momentum_updates(group: Group, tensors: Tensors) -> list[Tensor]:
    """The momentum, moved on by one step; with `nesterov` by two, in a copy."""
    updates = list(tensors.first)
    for places in _layouts(tensors.parameters):
        buffers, gradients = [tensors.first[place] for place in places], [tensors.gradients[place] for place in places]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        if group["nesterov"]:
            for place, update in zip(places, torch._foreach_lerp(gradients, buffers, group["momentum"]), strict=True):
                updates[place] = update
    return updates


def _layouts(parameters: Sequence[Tensor]) -> Iterable[list[int]]:
    """The places of plain tensors, and of the DTensors of each mesh: calls on a list take one kind at a time."""
    # Asked of the few types that there are, not of every parameter.
    if parameters and not any(hasattr(kind, "device_mesh") for kind in set(map(type, parameters))):
        return [list(range(len(parameters)))]
    places: dict[Any, list[int]] = {}
    for place, parameter in enumerate(parameters):
        places.setdefault(getattr(parameter, "device_mesh", None), []).append(place)
    return places.values()


def move_(group: Group, tensors: Tensors, directions: list[Tensor]) -> None:
    r"""$W \leftarrow (1 - \eta\lambda) W - \eta s D$."""
    lr = group["lr"].squeeze() if torch.is_tensor(group["lr"]) else group["lr"]
    rate = -lr if group["maximize"] else lr
    for places in _layouts(tensors.parameters):
        if group["weight_decay"] != 0:
            torch._foreach_mul_([tensors.parameters[place] for place in places], 1 - lr * group["weight_decay"])
        alike: dict[float, list[int]] = {}
        for place in places:
            alike.setdefault(tensors.scales[place], []).append(place)
        for scale, members in alike.items():
            weights, steps = [tensors.parameters[place] for place in members], [directions[place] for place in members]
            if torch.is_tensor(rate):
                # Without float(), which would wait for the device and fix the rate in a compiled step.
                torch._foreach_mul_(steps, rate * scale)
                torch._foreach_sub_(weights, steps)
            else:
                torch._foreach_add_(weights, steps, alpha=-rate * scale)


@cache
def matrix_scale(name: str, view: tuple[Any, ...], shape: torch.Size) -> float:
    """What the learning rate is multiplied by, for the matrices of a parameter; 0 if they are empty."""
    _, rows, columns = MatrixView(*view).shape(shape)
    return SCALES[name](rows, columns) if rows * columns else 0.0


def adamw_step_(group: Group, tensors: Tensors) -> None:
    """`torch.optim.AdamW` itself."""
    beta1, beta2 = group["adamw_betas"]
    adamw(
        tensors.parameters,
        tensors.gradients,
        tensors.first,
        tensors.second,
        [],
        tensors.steps,
        amsgrad=False,
        beta1=beta1,
        beta2=beta2,
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["adamw_eps"],
        maximize=group["maximize"],
    )
