"""Which parameters live on a manifold: groups of parameters that say so, and the check that they do."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.manifolds import Stiefel
from orthoscope.optim.batching import as_matrix, matrix_stack


def stiefel_parameter_groups(
    model: nn.Module, include: str | Sequence[str] = "*", manifold: Stiefel | None = None
) -> list[dict[str, Any]]:
    """Two groups for an optimizer: weights of linear and convolution layers on the manifold, and all the rest.

    `include` holds one or several shell patterns for full parameter names, as in `"encoder.*.weight"`. A linear
    weight is a matrix `(out, in)` and a convolution `(out, in·k·k)`, rows orthonormal where it is wide and
    columns where it is tall. `project_` makes them so.
    """
    patterns = [include] if isinstance(include, str) else list(include)
    weights = {
        id(module.weight)
        for module in model.modules()
        if isinstance(module, nn.Linear | _ConvNd) and isinstance(module.weight, nn.Parameter)
    }
    chosen: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        on_manifold = id(parameter) in weights and any(fnmatchcase(name, pattern) for pattern in patterns)
        (chosen if on_manifold else rest).append(parameter)
    if not chosen:
        raise ValueError(f"no weight of a linear or convolution layer has a name like {' or '.join(patterns)}")
    return [{"params": chosen, "manifold": manifold or Stiefel()}, {"params": rest}]


@torch.no_grad()
def project_(weight: Tensor, batched: bool = False) -> Tensor:
    """Replace a weight by the nearest one that is orthonormal: a matrix, a convolution, or a batch of matrices."""
    matrix = matrix_stack(weight) if batched else as_matrix(weight)
    return weight.copy_(polar_factor(matrix).reshape(weight.shape))


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
    for parameter in group["params"]:
        if parameter.ndim < 2 or parameter.numel() == 0:
            raise ValueError(
                f"a parameter of shape {tuple(parameter.shape)} is not a matrix: leave it to a group without manifold"
            )


def check_orthonormal(parameter: Tensor, batched: bool) -> None:
    r"""Refuse a weight with $\max|W^\top W - I| > \sqrt\varepsilon$; what is less, the first step removes."""
    matrix = matrix_stack(parameter) if batched else as_matrix(parameter)
    error = float(orthonormality_error(matrix).max())
    if not error <= torch.finfo(parameter.dtype).eps ** 0.5:
        raise ValueError(
            f"a parameter of shape {tuple(parameter.shape)} does not have orthonormal {_side(matrix)}, max|WᵀW - I| is"
            f" {error:.2g}: start it with torch.nn.init.orthogonal_ or call orthoscope.optim.project_ on it"
        )


def check_landing(parameter: Tensor, batched: bool) -> None:
    r"""Refuse a weight with $\|W^\top W - I\|_2 > \tfrac12$, from which landing is not guaranteed."""
    matrix = matrix_stack(parameter) if batched else as_matrix(parameter)
    squares = torch.linalg.svdvals(matrix.to(torch.promote_types(matrix.dtype, torch.float64))).square()
    error = float((squares - 1).abs().max())
    if not error <= 1 / 2:
        raise ValueError(
            f"a parameter of shape {tuple(parameter.shape)} has {_side(matrix)} too far from orthonormal to land,"
            f" ‖WᵀW - I‖ is {error:.2g} and may be 0.5: start it with torch.nn.init.orthogonal_ or call"
            " orthoscope.optim.project_ on it"
        )


def _side(matrix: Tensor) -> str:
    return "columns" if matrix.shape[-2] >= matrix.shape[-1] else "rows"
