"""Residual branches made weaker, so that many of them add up to little more than one."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from orthoscope.models.blocks import ResidualBlock
from orthoscope.probe.batches import as_call
from orthoscope.probe.jacobians.branches import IDENTITY, residual_branches
from orthoscope.probe.jacobians.replica import arguments, differentiable_pass, replica
from orthoscope.probe.jacobians.sightings import Sightings
from orthoscope.probe.names import unwrapped


def scale_branches_(model: nn.Module, batch: Any, scale: float | None = None) -> list[str]:
    r"""Multiply what every residual branch adds by `scale`, $1/\sqrt n$ for $n$ branches unless told; returns what was.

    $$ h_{i+1} = h_i + F_i(h_i) \quad\to\quad h_{i+1} = h_i + \text{scale} \cdot F_i(h_i) $$

    A `ResidualBlock` has a scale of its own. Any other branch is scaled by the last parameters on its way: weight and
    bias of its last layer, or of the normalisation behind it. An activation in between must be homogeneous, as a
    ReLU is, or the factor is not exact. Branches are found in one pass of a copy on the first samples of `batch`.
    """
    blocks = {
        f"{name}.scale": module
        for name, module in model.named_modules()
        if isinstance(module, ResidualBlock) and module.skip
    }
    ends = _last_parameters(model, batch, blocks)
    count = len(blocks) + len(ends)
    if count == 0:
        raise ValueError("the network has no residual branch whose last weight could be scaled")
    factor = count**-0.5 if scale is None else scale
    for block in blocks.values():
        block.scale *= factor
    parameters = dict(model.named_parameters())
    named = dict.fromkeys(name for names in ends for name in names)  # a shared weight is scaled once
    with torch.no_grad():
        for name in named:
            parameters[name].mul_(factor)
    return [*blocks, *named]


def _last_parameters(model: nn.Module, batch: Any, blocks: dict[str, ResidualBlock]) -> list[tuple[str, ...]]:
    """For every residual branch outside a ResidualBlock, the names of the parameters that end it."""
    own = tuple(name.removesuffix(".scale") for name in blocks)
    call = as_call(model, batch)
    twin = replica(model)
    names = {id(parameter): name for name, parameter in twin.named_parameters()}
    inputs = arguments(twin, call)
    with differentiable_pass(), Sightings(twin) as seen:
        twin(*inputs.args, **inputs.kwargs)
    found, _ = residual_branches(
        [one for one in seen.sums if not any(module in own for module in one.stack)], unwrapped(model)
    )
    ends = []
    for branch in found:
        if branch.skip == IDENTITY:
            ends.append(
                tuple(names[id(parameter)] for parameter in _nearest(branch.end.edge.node, branch.start.edge.node))
            )
    return [end for end in ends if end]


def _nearest(end: Node, start: Node) -> list[Tensor]:
    """The parameters of the operation nearest to the end of a branch that has any."""
    todo, seen = deque([end]), {end, start}
    while todo:
        node = todo.popleft()
        parents = [parent for parent, _ in node.next_functions if parent is not None]
        # A weight may be transposed before it multiplies: then it is a leaf's only child.
        leaves = [leaf for parent in parents for leaf in _leaf(parent)]
        if leaves:
            return leaves
        for parent in parents:
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
    return []


def _leaf(node: Node) -> Iterator[Tensor]:
    """The parameter that a node stands for, also through one view of it."""
    variable = getattr(node, "variable", None)
    if isinstance(variable, nn.Parameter):
        yield variable
        return
    parents = [parent for parent, _ in node.next_functions if parent is not None]
    if len(parents) == 1 and isinstance(getattr(parents[0], "variable", None), nn.Parameter):
        yield parents[0].variable  # type: ignore[attr-defined]
