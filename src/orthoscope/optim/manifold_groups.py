"""Which parameters live on a manifold: groups of parameters that say so, and the check that they do."""

import math
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope.layers.selection import Include, selected_layers
from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.manifolds import Stiefel
from orthoscope.optim.batching import as_matrix, matrix_stack

# How alike a key of a group must be to one that exists to be taken for a slip: "manifolds" is 0.94 of "manifold".
_SLIP = 0.85


def stiefel_parameter_groups(
    model: nn.Module, include: Include = None, manifold: Stiefel | None = None
) -> list[dict[str, Any]]:
    """Two groups for an optimizer: weights of linear and convolution layers on the manifold, and all the rest.

    `include` holds one or several shell patterns for names of layers or of their weights, as in `"encoder.*"`, or is
    a function of name and layer. By default all, except those that are also an embedding's and convolutions that are
    transposed or in groups: their parameter is not one matrix `(out, in·k·k)`, so that they need `layers.orthogonal`,
    and are refused if they are asked for. Layers whose weight is parametrized are left to the rest. A linear weight is
    a matrix `(out, in)` and a convolution `(out, in·k·k)`, rows orthonormal where it is wide and columns where it is
    tall. `project_` makes them so.

    The groups hold `param_names` too, by which the optimizer speaks of a weight; torch asks that all groups do.
    """
    selected = selected_layers(model, include)
    layers = {name: layer for name, layer in selected.items() if _is_one_matrix(layer)}
    other = [name for name in selected if name not in layers]
    if other and (include is not None or not layers):
        raise ValueError(
            f"{', '.join(other)} of {type(model).__name__} is the weight of a transposed or grouped convolution, which"
            " is not one matrix (out, in·k·k): use layers.orthogonal for it"
        )
    weights = {id(dict(layer.named_parameters(recurse=False)).get("weight")) for layer in layers.values()}
    chosen: dict[str, nn.Parameter] = {}
    rest: dict[str, nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        (chosen if id(parameter) in weights else rest)[name] = parameter
    if not chosen:
        raise ValueError(
            f"{', '.join(layers)} of {type(model).__name__} is parametrized already and has no place on a manifold:"
            " give model.parameters() to an optimizer of torch, or remove the parametrization"
        )
    return [
        {"params": list(chosen.values()), "param_names": list(chosen), "manifold": manifold or Stiefel()},
        {"params": list(rest.values()), "param_names": list(rest)},
    ]


def _is_one_matrix(layer: nn.Module) -> bool:
    """Whether rows of the parameter, flattened, are those of the matrix of one output position."""
    return not isinstance(layer, _ConvNd) or (layer.groups == 1 and not layer.transposed)


@torch.no_grad()
def project_(weight: Tensor, batched: bool = False) -> Tensor:
    """Replace a weight by the nearest one that is orthonormal: a matrix, a convolution, or a batch of matrices.

    A convolution is read as `(out, in·k·k)`, so not if it is transposed or in groups: `layers.orthogonal` knows those.
    A view of a parameter, as in `attention.in_proj_weight[:64]`, writes to it. What a parametrization computes is no
    such view; it is refused where autograd shows what it is.
    """
    if not torch.is_tensor(weight):
        raise TypeError(f"project_ writes to a tensor, got {type(weight).__name__}: pass the weight of a layer")
    _check_matrix("a weight", weight)
    source = weight if weight._base is None else weight._base
    if not source.is_leaf:
        raise ValueError(
            f"a weight of shape {tuple(weight.shape)} is the result of a computation, which project_ cannot write to:"
            " if its layer is parametrized, assign instead, layer.weight = project_(layer.weight.detach().clone())"
        )
    if not bool(weight.isfinite().all()):
        raise ValueError(f"a weight of shape {tuple(weight.shape)} has nan or infinite entries: initialise it again")
    matrix = matrix_stack(weight) if batched else as_matrix(weight)
    return weight.copy_(polar_factor(matrix).reshape(weight.shape))


def check_options(options: dict[str, Any]) -> None:
    """Refuse a learning rate or a weight decay that is none."""
    for name in ("lr", "weight_decay"):
        value = options[name]
        if not hasattr(value, "__float__"):
            raise TypeError(f"{name} must be a number, got {value!r}: convert it with float()")
        if not torch.is_tensor(value) and not float(value) >= 0:
            raise ValueError(f"{name} must be at least 0, got {value}")


def check_keys(group: dict[str, Any], defaults: dict[str, Any]) -> None:
    """Refuse a key that is nearly one of the optimizer's, or holds a manifold under another name."""
    known = ["params", "param_names", *defaults]
    for key in set(group) - set(known):
        meant = ["manifold"] if isinstance(group[key], Stiefel) else get_close_matches(key, known, 1, _SLIP)
        if meant:
            raise ValueError(f"a group has the key {key!r}, which nothing reads: write {meant[0]!r} or rename it")


def check_group(group: dict[str, Any]) -> None:
    """Refuse what has no meaning on a manifold."""
    manifold = group["manifold"]
    if manifold is None:
        return
    if not isinstance(manifold, Stiefel):
        raise TypeError(f"manifold must be a Stiefel() or None, got {manifold!r}")
    if group["weight_decay"] != 0:
        raise ValueError(
            f"weight_decay={group['weight_decay']} means nothing on the Stiefel manifold, where the norm of a weight"
            " is constant: set it to 0 in this group"
        )
    for subject, parameter in zip(_subjects(group), group["params"], strict=True):
        _check_matrix(subject, parameter)


def check_orthonormal(group: dict[str, Any], parameter: Tensor) -> None:
    r"""Refuse a weight with $\max|W^\top W - I| > \sqrt\varepsilon$; what is less, the first step removes."""
    matrix = matrix_stack(parameter) if group["batched"] else as_matrix(parameter)
    error = float(orthonormality_error(matrix).max())
    if not error <= torch.finfo(parameter.dtype).eps ** 0.5:
        raise ValueError(
            f"{_subject(group, parameter)} of shape {tuple(parameter.shape)} does not have orthonormal {_side(matrix)},"
            f" max|WᵀW - I| is {error:.2g}: start it with torch.nn.init.orthogonal_ or call orthoscope.optim.project_"
            " on it"
        )


def check_landing(group: dict[str, Any], parameter: Tensor) -> None:
    r"""Refuse a weight with $\|W^\top W - I\|_2 > \tfrac12$, from which landing is not guaranteed."""
    matrix = matrix_stack(parameter) if group["batched"] else as_matrix(parameter)
    precise = matrix.to(torch.promote_types(matrix.dtype, torch.float64))
    finite = bool(precise.isfinite().all())
    error = float((torch.linalg.svdvals(precise).square() - 1).abs().max()) if finite else math.nan
    if not error <= 1 / 2:
        raise ValueError(
            f"{_subject(group, parameter)} of shape {tuple(parameter.shape)} has {_side(matrix)} too far from"
            f" orthonormal to land, ‖WᵀW - I‖ is {error:.2g} and may be 0.5: start it with torch.nn.init.orthogonal_"
            " or call orthoscope.optim.project_ on it"
        )


def _check_matrix(subject: str, weight: Tensor) -> None:
    shape = tuple(weight.shape)
    if weight.ndim < 2 or weight.numel() == 0:
        raise ValueError(
            f"{subject} of shape {shape} is {'not a matrix' if weight.ndim < 2 else 'empty'}: leave it off the manifold"
        )
    if not (weight.is_floating_point() or weight.is_complex()):
        raise TypeError(
            f"{subject} of shape {shape} is of type {weight.dtype}, a weight on the manifold of a floating or complex"
            " one: convert it with .float()"
        )


def _subjects(group: dict[str, Any]) -> list[str]:
    """The names of the parameters, where the group has names."""
    return group.get("param_names", ["a parameter"] * len(group["params"]))


def _subject(group: dict[str, Any], parameter: Tensor) -> str:
    return next(name for name, other in zip(_subjects(group), group["params"], strict=True) if other is parameter)


def _side(matrix: Tensor) -> str:
    return "columns" if matrix.shape[-2] >= matrix.shape[-1] else "rows"
