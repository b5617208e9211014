"""What can be wrong with single parameters before anything runs: zero, rank one, frozen, biases far from the weights.

Of large weights only a few rows and columns are read. A fault is not a verdict: zero-initialized branches are zero by
design, and a network with a shifted bias may train.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from orthoscope.init.weights import WeightLayer, blocks_shape, weight_layers
from orthoscope.linalg.matrices import is_sharded
from orthoscope.probe.samples import is_zero

_ROWS, _COLUMNS = 32, 256  # that are read of a weight
_FAR = 5.0  # a bias this many times the norm of its unit's weights is hardly ever overcome by unit inputs
_PARALLEL = 1e-5  # 1 - |cosine| of two rows that are taken for the same direction
_QUERIES = ("q", "query", "q_proj", "to_q", "wq", "w_q", "q_lin", "queries")
_KEYS = ("k", "key", "k_proj", "to_k", "wk", "w_k", "k_lin", "keys")
_FUSED = ("qkv", "in_proj", "c_attn", "to_qkv", "qkv_proj", "wqkv")


@dataclass(frozen=True)
class Faults:
    """Names of layers and parameters, each in the order of definition.

    Attributes:
        zero: Trainable weight layers whose weight is zero.
        frozen_zero: Parameters that are zero and frozen: gates that never open.
        low_rank: Trainable weight layers whose rows have one direction, or repeat.
        shifted: Weight layers with biases far below zero.
        queries: Weight layers that make queries or keys of attention, or both with the values.
        attention: `nn.MultiheadAttention` modules.
        all_frozen: Whether no parameter is trainable.
    """

    zero: tuple[str, ...] = ()
    frozen_zero: tuple[str, ...] = ()
    low_rank: tuple[str, ...] = ()
    shifted: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    attention: tuple[str, ...] = ()
    all_frozen: bool = False


def faults(model: nn.Module) -> Faults:
    """Inspect the parameters; nothing is run."""
    layers = [(name, layer) for name, layer in weight_layers(model) if _readable(layer.weight)]
    parameters = list(model.named_parameters())
    return Faults(
        zero=tuple(name for name, layer in layers if layer.weight.requires_grad and is_zero(layer.weight.detach())),
        frozen_zero=tuple(
            name for name, one in parameters if not one.requires_grad and _readable(one) and is_zero(one.detach())
        ),
        low_rank=tuple(name for name, layer in layers if layer.weight.requires_grad and _is_low_rank(layer)),
        shifted=tuple(name for name, layer in layers if _is_shifted(layer)),
        queries=tuple(_queries(layers)),
        attention=tuple(name for name, module in model.named_modules() if isinstance(module, nn.MultiheadAttention)),
        all_frozen=bool(parameters) and not any(one.requires_grad for _, one in parameters),
    )


def _readable(tensor: Tensor) -> bool:
    return not (is_lazy(tensor) or tensor.is_meta or is_sharded(tensor)) and tensor.numel() > 0


def _is_low_rank(layer: WeightLayer) -> bool:
    """Whether at most half of the rows that are read differ in direction, although their length allows it."""
    groups, out, fan_in = blocks_shape(layer)
    if out * groups < 4 or fan_in < 2:
        return False
    rows = _some_rows(layer.weight.detach()).double()
    norms = rows.norm(dim=1)
    if not bool((norms > 0).all()) or not bool(norms.isfinite().all()):
        return False
    cosines = (rows / norms[:, None]) @ (rows / norms[:, None]).mT
    repeated = torch.tril(cosines.abs() > 1 - _PARALLEL, diagonal=-1).any(1)
    return bool(repeated.sum() * 2 >= len(rows)) and rows.shape[1] > 1


def _is_shifted(layer: WeightLayer) -> bool:
    """Whether half of the biases are so far below zero that an activation after them is off for most inputs."""
    if layer.bias is None or not _readable(layer.bias) or is_zero(layer.weight.detach()):
        return False
    middle = float(layer.bias.detach().median())
    if middle >= 0:
        return False
    _, _, fan_in = blocks_shape(layer)
    return middle < -_FAR * fan_in**0.5 * float(_some_rows(layer.weight.detach()).double().square().mean()) ** 0.5


def _some_rows(weight: Tensor) -> Tensor:
    """A few rows and columns, evenly spaced."""
    rows = weight[:: max(1, weight.shape[0] // _ROWS)][:_ROWS].flatten(1)
    return rows[:, :: max(1, rows.shape[1] // _COLUMNS)]


def _queries(layers: list[tuple[str, WeightLayer]]) -> Iterator[str]:
    """Layers named as queries or keys are, next to each other, or as both together."""
    names = {name for name, _ in layers}
    for name, layer in layers:
        parent, _, own = name.rpartition(".")
        others = _KEYS if own.lower() in _QUERIES else _QUERIES if own.lower() in _KEYS else ()
        beside = {one.rpartition(".")[2].lower() for one in names if one.rpartition(".")[0] == parent}
        if beside & set(others) or (
            own.lower() in _FUSED and isinstance(layer, nn.Linear) and layer.out_features == 3 * layer.in_features
        ):
            yield name
