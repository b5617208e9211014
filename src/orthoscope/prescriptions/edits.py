"""Edits of a model: residual branches scaled down, normalization inserted where there is none."""

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.nn.modules.batchnorm import _NormBase

from orthoscope.init.weights import weight_layers
from orthoscope.models.blocks import ResidualBlock
from orthoscope.probe.batches import as_call
from orthoscope.probe.hooks import unwrapped
from orthoscope.probe.jacobians.branches import IDENTITY, residual_branches
from orthoscope.probe.jacobians.replica import arguments, differentiable_pass, replica
from orthoscope.probe.jacobians.residual import recorded
from orthoscope.probe.samples import tensors_in


def scale_branches_(model: nn.Module, batch: Any, scale: float | None = None) -> list[str]:
    r"""Multiply the output of every residual branch by `scale`.

    $$ h_{i+1} = h_i + F_i(h_i) \quad\to\quad h_{i+1} = h_i + \text{scale} \cdot F_i(h_i) $$

    A `ResidualBlock` has a scale of its own. Any other branch is scaled by the last parameters on its way: weight and
    bias of its last layer, or of the normalization behind it. An activation in between must be homogeneous, as a
    ReLU is, or the factor is not exact. Branches are found in one pass of a copy.

    Args:
        model: Changed in place.
        batch: As for `diagnose`.
        scale: The factor; by default $1/\sqrt n$ for $n$ branches.

    Returns:
        The names of what was scaled.

    Raises:
        ValueError: If no branch can be scaled.
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
    seen = recorded(model, batch)
    names = {id(parameter): name for name, parameter in seen.model.named_parameters()}
    outside = [one for one in seen.sums if not any(module in own for module in one.stack)]
    ends = [
        tuple(names[id(parameter)] for parameter in _nearest(branch.end.edge.node, branch.start.edge.node))
        for branch in residual_branches(outside, unwrapped(model))[0]
        if branch.skip == IDENTITY
    ]
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


_NORMS = (_NormBase, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm)


def insert_norms_(model: nn.Module, batch: Any) -> list[str]:
    r"""Put a normalization of every sample before each hidden linear layer or convolution that has none.

    $h \mapsto W\,\mathrm{norm}(h)$: `nn.LayerNorm` before `nn.Linear`, `nn.GroupNorm` of one group before others.
    The first layer that runs is left unchanged, because its input is data; so is one whose input is the output
    of a normalization, or a view of it.
    A layer named `fc` becomes `nn.Sequential(norm, fc)`: its weight is `fc.1.weight` from then on.

    Args:
        model: Changed in place.
        batch: As for `diagnose`.

    Returns:
        The names of the layers.

    Raises:
        ValueError: If every hidden layer has a normalization before it.
    """
    layers = dict(weight_layers(model))
    hidden = list(_normalized(model, batch).items())[1:]
    chosen = [name for name, normalized in hidden if not normalized and _norm_for(layers[name]) is not None]
    if not chosen:
        raise ValueError("every hidden layer that can take one has a normalization before it")
    for name in chosen:
        norm = _norm_for(layers[name])
        assert norm is not None
        weight = layers[name].weight
        parent, _, child = name.rpartition(".")
        pair = nn.Sequential(norm.to(weight.device, weight.dtype), layers[name]).train(layers[name].training)
        setattr(model.get_submodule(parent), child, pair)
    return chosen


_BATCH_NORMS: dict[type[nn.Module], type[_NormBase]] = {
    nn.Conv1d: nn.BatchNorm1d,
    nn.Conv2d: nn.BatchNorm2d,
    nn.Conv3d: nn.BatchNorm3d,
}


def insert_batch_norms_(model: nn.Module, batch: Any) -> list[str]:
    r"""Put a batch normalization behind every hidden convolution, and behind linear layers of one vector a sample.

    A layer named `conv` becomes `nn.Sequential(conv, norm)`: its weight is `conv.0.weight` from then on. The last layer
    that runs is left unchanged: what it returns is the answer.

    Args:
        model: Changed in place; it has no normalization of its own.
        batch: As for `diagnose`.

    Returns:
        The names of the layers.

    Raises:
        ValueError: If the network has a normalization, or no layer that can take one.
    """
    if any(isinstance(module, _NORMS) for module in model.modules()):
        raise ValueError("the network has normalizations: no second one is put behind its layers")
    ranks: dict[str, int] = {}
    twin = replica(model)
    inputs = arguments(twin, as_call(model, batch))
    for name, layer in weight_layers(twin):
        layer.register_forward_hook(lambda _, __, output, name=name: ranks.update({name: output.ndim}))
    with differentiable_pass():
        twin(*inputs.args, **inputs.kwargs)
    layers = dict(weight_layers(model))
    norms = {name: _batch_norm_for(layers[name], rank) for name, rank in list(ranks.items())[:-1]}
    chosen = {name: norm for name, norm in norms.items() if norm is not None}
    if not chosen:
        raise ValueError("no hidden layer is a convolution, or a linear layer of one vector a sample")
    for name, norm in chosen.items():
        layer, (parent, _, child) = layers[name], name.rpartition(".")
        pair = nn.Sequential(layer, norm.to(layer.weight.device, layer.weight.dtype)).train(layer.training)
        setattr(model.get_submodule(parent), child, pair)
    return list(chosen)


def _batch_norm_for(layer: nn.Module, rank: int) -> nn.Module | None:
    if isinstance(layer, nn.Linear):
        return nn.BatchNorm1d(layer.out_features) if rank == 2 else None
    norm = _BATCH_NORMS.get(type(layer))
    return None if norm is None else norm(int(layer.out_channels))  # type: ignore[arg-type]


def _normalized(model: nn.Module, batch: Any) -> dict[str, bool]:
    """For every weight layer, in the order of their first calls on a copy, whether a normalization made its input."""
    call = as_call(model, batch)
    twin = replica(model)
    inputs = arguments(twin, call)
    outputs: list[Tensor] = []  # kept, so that no other tensor gets their memory
    made: set[tuple[int, int]] = set()
    found: dict[str, bool] = {}

    def after_norm(_module: nn.Module, _args: Any, output: Any) -> None:
        outputs.extend(tensors_in(output))
        made.update(_contents(tensor) for tensor in tensors_in(output))

    def before_layer(name: str) -> Any:
        def note(_module: nn.Module, args: Any, kwargs: Any) -> None:
            given = next(tensors_in((args, kwargs)), None)
            found.setdefault(name, given is not None and _contents(given) in made)

        return note

    for module in twin.modules():
        if isinstance(module, _NORMS):
            module.register_forward_hook(after_norm)
    for name, layer in weight_layers(twin):
        layer.register_forward_pre_hook(before_layer(name), with_kwargs=True)
    with differentiable_pass():
        twin(*inputs.args, **inputs.kwargs)
    return found


def _contents(tensor: Tensor) -> tuple[int, int]:
    """The memory of a tensor and how often it was written to: the same for its views, until one is changed in place."""
    return tensor.untyped_storage().data_ptr(), tensor._version


def _norm_for(layer: nn.Module) -> nn.Module | None:
    if isinstance(layer, nn.Linear):
        return nn.LayerNorm(layer.in_features)
    if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return nn.GroupNorm(1, layer.in_channels)
    return None
