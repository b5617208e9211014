"""Checks of the arguments of orthogonal layers; every error names a remedy."""

import difflib

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from orthoscope.layers._starting_weight import STARTS
from orthoscope.layers.charts import CHARTS, chosen_map
from orthoscope.layers.parametrization import Layout
from orthoscope.linalg import givens_count

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)


def check_module(module: object, generator: object) -> None:
    if not isinstance(module, nn.Module):
        raise TypeError(f"expected the nn.Module that owns the weight, got {type(module).__name__}: pass that layer")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator={generator!r} is no torch.Generator: use torch.Generator().manual_seed(seed), or None"
        )


def owned_tensor(module: nn.Module, name: str) -> Tensor:
    """The parameter or buffer of that name that the module itself owns, with a shape and not parametrized yet."""
    if parametrize.is_parametrized(module, name):
        kinds = ", ".join(type(p).__name__ for p in module.parametrizations[name])  # type: ignore[index]
        raise ValueError(
            f"{name!r} is already parametrized ({kinds}): call torch.nn.utils.parametrize.remove_parametrizations first"
        )
    tensors = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    if name not in tensors:
        inside = [path for path, part in module.named_modules() if path and name in part._parameters]
        if inside:
            have = f"call it on a layer inside, such as {inside[0]!r}, by module.get_submodule({inside[0]!r})"
        else:
            have = f"it has {', '.join(tensors) or 'none of its own, and no layer inside has one of that name'}"
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {name!r}: {have}")
    if is_lazy(tensors[name]):
        raise ValueError(f"{name!r} has no shape yet: run one batch through the module first")
    return tensors[name]


def matrix_weight(module: nn.Module, name: str, start: str | None) -> Tensor:
    """The weight of that name; TypeError or ValueError if it cannot be made orthonormal."""
    weight = owned_tensor(module, name)
    if weight.dtype not in _DTYPES:
        raise TypeError(
            f"{name!r} is of {weight.dtype}, which cannot be orthonormal: convert it to a floating-point type"
        )
    if weight.ndim < 2:
        raise ValueError(
            f"{name!r} has shape {tuple(weight.shape)}: only matrices, and stacks of them, can be orthonormal"
        )
    if weight.numel() == 0:
        raise ValueError(f"{name!r} is empty, of shape {tuple(weight.shape)}: leave this layer as it is")
    # "haar" discards the weight.
    if start != "haar" and not weight.is_meta and not bool(weight.detach().isfinite().all()):
        raise ValueError(
            f"{name!r} has entries that are nan or infinite: initialize it, repair the checkpoint, or use start='haar'"
        )
    return weight


def check_map(map: str) -> None:
    if map != "auto" and map not in CHARTS:
        close = difflib.get_close_matches(str(map), CHARTS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown map {map!r}: {hint}choose one of auto, {', '.join(CHARTS)}")


def map_for(layout: Layout, weight: Tensor, map: str, num_reflections: int | None, num_rotations: int | None) -> str:
    """The name of the map, checked against everything that depends on it."""
    check_map(map)
    if map == "auto":
        if num_reflections is not None:
            map = "householder"
        elif num_rotations is not None:
            map = "givens"
        else:
            rows, columns = layout.frame_shape[-2:]
            map = chosen_map(rows, columns, weight.is_complex())
    if weight.is_complex() and not CHARTS[map].allows_complex:
        able = " or ".join(repr(name) for name, chart in CHARTS.items() if chart.allows_complex)
        raise ValueError(f"map {map!r} is for real weights, and this one is of {weight.dtype}: choose {able}")
    if num_reflections is not None and map != "householder":
        raise ValueError(f"num_reflections={num_reflections} is for map 'householder', not for {map!r}: leave it out")
    if num_rotations is not None and map != "givens":
        raise ValueError(f"num_rotations={num_rotations} is for map 'givens', not for {map!r}: leave it out")
    return map


def partial_size(layout: Layout, num_reflections: int | None, num_rotations: int | None) -> int | None:
    """How many reflections or pivots a partial family has; None if it is not partial."""
    rows, columns = layout.frame_shape[-2:]
    for name, number in (("num_reflections", num_reflections), ("num_rotations", num_rotations)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            raise TypeError(f"{name}={number!r} counts factors: give a whole number")
    if num_reflections is not None:
        if not 1 <= num_reflections <= columns:
            raise ValueError(
                f"num_reflections={num_reflections} is not between 1 and {columns}, which are enough for every weight"
            )
        return num_reflections if num_reflections < columns else None
    if num_rotations is not None:
        counts = {givens_count(rows, pivots): pivots for pivots in range(columns, 0, -1)}
        if num_rotations not in counts:
            near = sorted(sorted(counts, key=lambda count: abs(count - num_rotations))[:2])
            raise ValueError(
                f"num_rotations={num_rotations} is not a whole number of fans, p(2n-p-1)/2 with n={rows} and p up to "
                f"{columns}: the nearest are {' and '.join(str(count) for count in near)}"
            )
        return counts[num_rotations] if num_rotations < max(counts) else None
    return None


def check_beginning(layout: Layout, weight: Tensor, determinant: int | None, start: str | None) -> None:
    rows, columns = layout.frame_shape[-2:]
    if start is not None and start not in STARTS:
        raise ValueError(f"unknown start {start!r}: choose one of {', '.join(STARTS)}, or None")
    if determinant is None:
        return
    if determinant not in (1, -1):
        raise ValueError(f"determinant={determinant} of an orthogonal matrix does not exist: choose 1, -1 or None")
    if rows != columns or weight.is_complex():
        kind = "complex" if weight.is_complex() else " x ".join(map(str, layout.matrices_shape))
        raise ValueError(f"determinant={determinant} is for square real weights, and this one is {kind}: leave it out")
