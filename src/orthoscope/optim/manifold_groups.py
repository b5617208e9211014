"""Parameters on the Stiefel manifold: which ones, how they get there, and the checks that they are there."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope.layers.selection import Include, selected_layers
from orthoscope.linalg import orthonormality_error, polar_factor, weight_matrix
from orthoscope.linalg.precision import to_double
from orthoscope.manifolds import Stiefel
from orthoscope.optim._batching import matrix_stack
from orthoscope.optim._validation import Group, parameter_names


def stiefel_parameter_groups(
    model: nn.Module, include: Include = None, manifold: Stiefel | None = None
) -> list[dict[str, Any]]:
    """Split the parameters of a model into weights on the manifold and all others.

    A linear weight is a matrix `(out, in)` and a convolution `(out, in·k·k)`; rows are orthonormal if it is wide,
    columns if it is tall. `project_` makes them so. Weights under a parametrization stay with the others.

    Args:
        model: The model whose parameters are split.
        include: Shell patterns for names of layers or of their weights, as in `"encoder.*"`, or a function of a
            layer's name and the layer. Default: all linear and convolution layers, except weights shared with an
            embedding and transposed or grouped convolutions, whose parameter is not one matrix `(out, in·k·k)`.
        manifold: The manifold of the first group. Default: `Stiefel()`.

    Returns:
        Two parameter groups with `params` and `param_names`; the first also has `manifold`.

    Raises:
        ValueError: If a pattern matches nothing, if `include` selects a transposed or grouped convolution (use
            `layers.orthogonal` for it), or if all selected weights are parametrized.
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
            f"{', '.join(layers)} of {type(model).__name__} is parametrized already and cannot be on a manifold:"
            " give model.parameters() to an optimizer of torch, or remove the parametrization"
        )
    return [
        {"params": list(chosen.values()), "param_names": list(chosen), "manifold": manifold or Stiefel()},
        {"params": list(rest.values()), "param_names": list(rest)},
    ]


def _is_one_matrix(layer: nn.Module) -> bool:
    """Whether the flattened rows of the weight are the rows of the map from one input patch to one output position."""
    return not isinstance(layer, _ConvNd) or (layer.groups == 1 and not layer.transposed)


@torch.no_grad()
def project_(weight: Tensor, batched: bool = False) -> Tensor:
    """Replace a weight in place by the nearest orthonormal one, its polar factor.

    Args:
        weight: A matrix, or a convolution read as `(out, in·k·k)`; not a transposed or grouped one, for which
            `layers.orthogonal` is made. A view, as in `attention.in_proj_weight[:64]`, writes to its parameter.
        batched: Read the weight as a batch of matrices `(*batch, rows, columns)`.

    Returns:
        The weight itself.

    Raises:
        TypeError: If the weight is no tensor, or not of a floating or complex type.
        ValueError: If it has fewer than two dimensions, is empty or not finite, or is the output of a computation
            such as a parametrization, where writing to it would have no effect.
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
        raise ValueError(f"a weight of shape {tuple(weight.shape)} has nan or infinite entries: initialize it again")
    return weight.copy_(polar_factor(_matrices(weight, batched)).reshape(weight.shape))


def check_group(group: Group) -> None:
    """Raise if the group has a manifold and options or parameters that have no meaning on it."""
    manifold = group["manifold"]
    if manifold is None:
        return
    if not isinstance(manifold, Stiefel):
        raise TypeError(f"manifold must be a Stiefel() or None, got {manifold!r}")
    if group["weight_decay"] != 0:
        raise ValueError(
            f"weight_decay={group['weight_decay']} has no effect on the Stiefel manifold, where the norm of a weight"
            " is constant: set it to 0 in this group"
        )
    for name, parameter in zip(parameter_names(group), group["params"], strict=True):
        _check_matrix(name, parameter)
        try:
            _matrices(parameter, group["batched"])
        except RuntimeError:
            raise ValueError(
                f"the matrices of {name} are not evenly spaced in memory: give {name}.contiguous()"
            ) from None


def check_orthonormal(group: Group, parameter: Tensor) -> None:
    r"""Raise if $\max|W^\top W - I| > \sqrt\varepsilon$; the first step removes a smaller deviation."""
    matrix = _matrices(parameter, group["batched"])
    error = float(orthonormality_error(matrix).max())
    if not error <= torch.finfo(parameter.dtype).eps ** 0.5:
        raise ValueError(
            f"{_name(group, parameter)} of shape {tuple(parameter.shape)} does not have orthonormal {_side(matrix)},"
            f" max|WᵀW - I| is {error:.2g}: initialize it with torch.nn.init.orthogonal_ or call"
            " orthoscope.optim.project_ on it"
        )


def check_landing(group: Group, parameter: Tensor) -> None:
    r"""Raise if $\|W^\top W - I\|_2 > \tfrac12$, from where `Landing` is not guaranteed to converge."""
    matrix = _matrices(parameter, group["batched"])
    precise = to_double(matrix)
    finite = bool(precise.isfinite().all())
    error = float((torch.linalg.svdvals(precise).square() - 1).abs().max()) if finite else math.nan
    if not error <= 1 / 2:
        raise ValueError(
            f"{_name(group, parameter)} of shape {tuple(parameter.shape)} has {_side(matrix)} too far from"
            f" orthonormal to land, ‖WᵀW - I‖ is {error:.2g} and may be 0.5: initialize it with"
            " torch.nn.init.orthogonal_ or call orthoscope.optim.project_ on it"
        )


def _check_matrix(name: str, weight: Tensor) -> None:
    shape = tuple(weight.shape)
    if weight.ndim < 2 or weight.numel() == 0:
        raise ValueError(
            f"{name} of shape {shape} is {'not a matrix' if weight.ndim < 2 else 'empty'}: leave it off the manifold"
        )
    if not (weight.is_floating_point() or weight.is_complex()):
        raise TypeError(
            f"{name} of shape {shape} has type {weight.dtype}, and a weight on the manifold is floating or complex:"
            " convert it with .float()"
        )


def _matrices(weight: Tensor, batched: bool) -> Tensor:
    return matrix_stack(weight) if batched else weight_matrix(weight)


def _name(group: Group, parameter: Tensor) -> str:
    return next(name for name, own in zip(parameter_names(group), group["params"], strict=True) if own is parameter)


def _side(matrix: Tensor) -> str:
    return "columns" if matrix.shape[-2] >= matrix.shape[-1] else "rows"
