"""Changes to a network that is built: to its weights, activations, residual branches, attention, and what is trained.

A change walks over modules and knows no family. It returns the name of the one module that it puts a fault into, or ""
if it changes many; None if the network has nothing that it could change.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope_papers.calibration.families.parts import Attention, ChannelNorm, LayerScale, Residual

Change = Callable[[nn.Module], str | None]
T = TypeVar("T", bound=nn.Module)

NORMS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, ChannelNorm)
ACTIVATIONS = (nn.ReLU, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU)
_HEAD = "head"


def weight_layers(network: nn.Module) -> list[tuple[str, nn.Module]]:
    """Linear, convolutional and recurrent layers by name, in order of definition, without those of the head."""
    return [
        (name, module)
        for name, module in network.named_modules()
        if isinstance(module, nn.Linear | _ConvNd | nn.RNNBase) and name.partition(".")[0] != _HEAD
    ]


def matrices(layer: nn.Module) -> list[nn.Parameter]:
    """The weights of a layer, without biases."""
    return [value for name, value in layer.named_parameters(recurse=False) if name.startswith("weight")]


def biases(layer: nn.Module) -> list[nn.Parameter]:
    """The biases of a layer."""
    return [value for name, value in layer.named_parameters(recurse=False) if name.startswith("bias")]


def _middle(layers: list[tuple[str, T]]) -> tuple[str, T]:
    return layers[len(layers) // 2]


def _replaced(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(network.get_submodule(parent), child, module)


def _of(network: nn.Module, *kinds: type[Any]) -> list[tuple[str, Any]]:
    return [(name, module) for name, module in network.named_modules() if isinstance(module, kinds)]


def unnormalized(network: nn.Module) -> str | None:
    """Remove every normalization."""
    found = _of(network, *NORMS)
    for name, _ in found:
        _replaced(network, name, nn.Identity())
    return "" if found else None


# Weights


def _for_every_matrix(network: nn.Module, change: Callable[[nn.Parameter], Any]) -> str | None:
    layers = weight_layers(network)
    with torch.no_grad():
        for _, layer in layers:
            for matrix in matrices(layer):
                change(matrix)
    return "" if layers else None


def scaled(factor: float) -> Change:
    """Multiply all weights of hidden layers."""
    return lambda network: _for_every_matrix(network, lambda matrix: matrix.mul_(factor))


def orthogonal(network: nn.Module) -> str | None:
    """Draw all weights of hidden layers with orthonormal rows or columns."""
    return _for_every_matrix(network, nn.init.orthogonal_)


def as_in_torch(network: nn.Module) -> str | None:
    """Draw all layers as PyTorch does unless told."""
    for module in network.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
    return ""


def he(network: nn.Module) -> str | None:
    """Draw all hidden layers as He et al. do, without biases."""
    for _, layer in weight_layers(network):
        for bias in biases(layer):
            nn.init.zeros_(bias)
    return _for_every_matrix(network, lambda matrix: nn.init.kaiming_normal_(matrix, nonlinearity="relu"))


def _to_rank_one(matrix: nn.Parameter) -> None:
    flat = matrix.flatten(1)
    left, values, right = torch.linalg.svd(flat, full_matrices=False)
    matrix.copy_((values.norm() * left[:, :1] @ right[:1]).view_as(matrix))  # of the same norm


def rank_one(network: nn.Module) -> str | None:
    """Leave the first singular direction of every hidden layer."""
    return _for_every_matrix(network, _to_rank_one)


def rank_one_in_one_layer(network: nn.Module) -> str | None:
    """Leave the first singular direction of one layer."""
    name, layer = _middle(weight_layers(network))
    with torch.no_grad():
        for matrix in matrices(layer):
            _to_rank_one(matrix)
    return name


def repeated_rows(network: nn.Module) -> str | None:
    """Give all units of a hidden layer the weights and bias of its first."""
    with torch.no_grad():
        for _, layer in weight_layers(network):
            for bias in biases(layer):
                bias.copy_(bias[:1].expand_as(bias))
    return _for_every_matrix(network, lambda matrix: matrix.copy_(matrix[:1].expand_as(matrix).clone()))


def zero_and_frozen(network: nn.Module) -> str | None:
    """One layer is zero and is not trained."""
    name, layer = _middle(weight_layers(network))
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
        parameter.requires_grad_(False)
    return name


# Residual branches


class Times(nn.Module):
    """A constant factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def branches_times(factor: float) -> Change:
    """Multiply the output of every residual branch."""

    def change(network: nn.Module) -> str | None:
        found = _of(network, Residual)
        for _, residual in found:
            residual.gate = nn.Sequential(residual.gate, Times(factor))
        return "" if found else None

    return change


def gated(value: float, frozen: bool = False) -> Change:
    """Put a LayerScale of that value at the end of every branch, in place of any other."""

    def change(network: nn.Module) -> str | None:
        found = _of(network, Residual)
        own = [one.gate.gamma for _, one in found if isinstance(one.gate, LayerScale)]
        if not found or (own and not frozen and all(bool((gamma == value).all()) for gamma in own)):
            return None
        for _, residual in found:
            residual.gate = LayerScale(residual.width, value, residual.maps).requires_grad_(not frozen)
        return ""

    return change


# Attention


def _in_attention(change: Callable[[Attention], None], *, one: bool = False) -> Change:
    def changed(network: nn.Module) -> str | None:
        found = _of(network, Attention)
        if not found:
            return None
        chosen = [_middle(found)] if one else found
        for _, attention in chosen:
            change(attention)
        return chosen[0][0] if one else ""

    return changed


def attention_logits_times(factor: float) -> Change:
    """Multiply queries and keys by the square root of the factor each."""

    def change(attention: Attention) -> None:
        with torch.no_grad():
            for parameter in (*attention.query.parameters(), *attention.key.parameters()):
                parameter.mul_(factor**0.5)

    return _in_attention(change)


def wrong_axis(one: bool = False) -> Change:
    """Let the weights of every token sum to one over the queries."""
    return _in_attention(lambda attention: setattr(attention, "axis", -2), one=one)


def first_token_only(one: bool = False) -> Change:
    """Mask all tokens but the first."""
    return _in_attention(lambda attention: setattr(attention, "first_only", True), one=one)


# Activations


class ShiftedReLU(nn.Module):
    """Zero up to 3."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 3).relu()


def activations(kind: Callable[[], nn.Module], weights: float = 1.0) -> Change:
    """Replace every activation; multiply weights as well."""

    def change(network: nn.Module) -> str | None:
        found = _of(network, *ACTIVATIONS)
        for name, _ in found:
            _replaced(network, name, kind())
        if found and weights != 1:
            scaled(weights)(network)
        return "" if found else None

    return change


def _before_activations(network: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """For every activation the layer defined before it, if that has a bias."""
    last: tuple[str, nn.Module] | None = None
    for name, module in network.named_modules():
        if isinstance(module, ACTIVATIONS):
            if last is not None and biases(last[1]):
                yield last
            last = None
        elif dict(module.named_parameters(recurse=False)):
            last = (name, module)


def dead_biases(one: bool = False) -> Change:
    """Set the biases before activations to -10: with ReLU nothing passes."""

    def change(network: nn.Module) -> str | None:
        found = list(_before_activations(network))
        if not found:
            return None
        chosen = [_middle(found)] if one else found
        for _, layer in chosen:
            for bias in biases(layer):
                nn.init.constant_(bias, -10.0)
        return chosen[0][0] if one else ""

    return change


# What is trained


class Detached(nn.Module):
    """A module before or after which the gradient ends."""

    def __init__(self, module: nn.Module, before: bool) -> None:
        super().__init__()
        self.module, self.before = module, before

    def forward(self, x: Tensor, *others: Tensor) -> Tensor:
        if self.before:
            return self.module(x.detach(), *others)
        output: Tensor = self.module(x, *others)
        return output.detach()


def detached_in_the_middle(network: nn.Module) -> str | None:
    """The output of the middle block is detached."""
    blocks: nn.ModuleList = network.get_submodule("blocks")  # type: ignore[assignment]
    if len(blocks) < 3:
        return None
    middle = len(blocks) // 2
    blocks[middle] = Detached(blocks[middle], before=False)
    return f"blocks.{middle}"


def detached_before_the_head(network: nn.Module) -> str | None:
    """The head alone gets a gradient."""
    _replaced(network, _HEAD, Detached(network.get_submodule(_HEAD), before=True))
    return _HEAD


def mostly_frozen(network: nn.Module) -> str | None:
    """Nothing but the last block, and what follows, is trained."""
    blocks: nn.ModuleList = network.get_submodule("blocks")  # type: ignore[assignment]
    if len(blocks) < 3:
        return None
    for name, child in network.named_children():
        if name == "blocks":
            blocks[:-1].requires_grad_(False)
            break
        child.requires_grad_(False)
    return ""
