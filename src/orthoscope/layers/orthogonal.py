"""An orthogonal weight by construction: whatever an optimizer does to its coordinates, the weight is orthonormal."""

import difflib
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from orthoscope.layers.charts import CHARTS, chosen_map
from orthoscope.layers.checkpoints import accept_plain_weights
from orthoscope.layers.layout import Layout
from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.pickling import make_picklable
from orthoscope.layers.rounding import computing_dtype
from orthoscope.layers.starting_weight import STARTS, starting_weight
from orthoscope.linalg.givens import givens_count

Module = TypeVar("Module", bound=nn.Module)

_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)


def orthogonal(
    module: Module,
    name: str = "weight",
    map: str = "auto",
    *,
    num_reflections: int | None = None,
    num_rotations: int | None = None,
    determinant: int | None = None,
    start: str | None = None,
    generator: torch.Generator | None = None,
) -> Module:
    r"""Make a weight orthonormal for good, $W^\mathsf{H}W = I$ (if wide, $WW^\mathsf{H} = I$). Returns the module.

    A weight of more than two dimensions is a batch of matrices. The weight of a convolution is, for every group, the
    matrix `(out, in·k·k)` of one output position; that does not make the convolution an isometry of images, for which
    see `orthogonal_convolution`. A weight shared with another module would change there too: untie it first.

    `map`: "householder", "cayley", "exponential" (a whole base frame is stored) or "givens"; "auto" takes the fastest
    for the shape and says which in `repr(module)`. Complex weights need "cayley" or "exponential".
    `num_reflections`, `num_rotations`: fewer than the full number is a cheaper, partial family. Rotations come in
    fans, each coordinate with all later ones, so that $p$ fans of $n$ rows are $p(2n-p-1)/2$ rotations.
    `determinant`: +1 or -1, for square real weights; by default that of the starting weight. Training cannot change it.

    `start`: a weight that is orthonormal to rounding, $\max|W^\mathsf{H}W - I| \le 2\varepsilon_\text{stored} +
    10\sqrt n\,\varepsilon_\text{computed}$, is kept. Any other is replaced by the nearest one, with a warning, or by
    "nearest" without it; "haar" draws one uniformly from `generator`, whatever the weight; "keep" refuses to replace.

    float16 and bfloat16 weights are computed in float32, also under autocast. Assigning an orthonormal
    `module.weight` keeps it, any other is refused; `load_state_dict` also takes checkpoints that hold the plain weight.
    `torch.nn.utils.parametrize.cached()` computes the weight once for many uses; `remove_parametrizations` leaves it.
    """
    weight = _weight_of(module, name)
    layout = Layout.of(module, name)
    chosen = map == "auto"
    map = _map_for(layout, weight, map, num_reflections, num_rotations)
    size = _partial_size(layout, map, num_reflections, num_rotations)
    _check_options(layout, weight, determinant, start)
    # In full precision at first: rounded to bfloat16, a member of a partial family is none any more.
    computed = computing_dtype(weight.dtype)
    parametrization = OrthogonalParametrization(layout, map, size, dtype=computed, device=weight.device, chosen=chosen)
    beginning = weight.detach()
    if not weight.is_meta:
        beginning = starting_weight(parametrization, beginning, start, determinant, generator)
    _register(module, name, parametrization, beginning.to(device=weight.device, dtype=computed))
    make_picklable(module)
    accept_plain_weights(module)
    return module


def _register(module: nn.Module, name: str, parametrization: OrthogonalParametrization, beginning: Tensor) -> None:
    """Parametrize a weight that begins with a given value; if that fails, the module is as it was."""
    weight = getattr(module, name)
    before, weight.data = weight.data, beginning
    try:
        parametrize.register_parametrization(module, name, parametrization, unsafe=weight.is_meta)
    except Exception:
        weight.data = before
        raise
    weight.grad = None  # it was the weight's; the same tensor now holds the coordinates
    if before.dtype != beginning.dtype:
        module.parametrizations[name].to(before.dtype)  # type: ignore[index]


def _weight_of(module: nn.Module, name: str) -> Tensor:
    """The weight of that name, if it can be made orthonormal; otherwise what is the matter with it."""
    if parametrize.is_parametrized(module, name):
        kinds = ", ".join(type(p).__name__ for p in module.parametrizations[name])  # type: ignore[index]
        raise ValueError(
            f"{name!r} is already parametrized ({kinds}): call torch.nn.utils.parametrize.remove_parametrizations first"
        )
    tensors = {**dict(module.named_parameters(recurse=False)), **dict(module.named_buffers(recurse=False))}
    if name not in tensors:
        have = ", ".join(tensors) or "none of its own"
        raise ValueError(f"{type(module).__name__} has no parameter or buffer {name!r}: it has {have}")
    weight = tensors[name]
    if is_lazy(weight):
        raise ValueError(f"{name!r} has no shape yet: run one batch through the module first")
    if weight.dtype not in _DTYPES:
        raise TypeError(
            f"{name!r} is of {weight.dtype}, which cannot be orthonormal: convert it to a floating-point type"
        )
    if weight.ndim < 2 or weight.numel() == 0:
        raise ValueError(
            f"{name!r} has shape {tuple(weight.shape)}: only matrices, and stacks of them, can be orthonormal"
        )
    if not weight.is_meta and not bool(weight.detach().isfinite().all()):
        raise ValueError(
            f"{name!r} has entries that are nan or infinite: initialise it, or repair the checkpoint, first"
        )
    return weight


def _map_for(layout: Layout, weight: Tensor, map: str, num_reflections: int | None, num_rotations: int | None) -> str:
    """The name of the map, checked against everything that depends on it."""
    if map == "auto":
        if num_reflections is not None:
            map = "householder"
        elif num_rotations is not None:
            map = "givens"
        else:
            rows, columns = layout.frame_shape[-2:]
            map = chosen_map(rows, columns, weight.is_complex())
    if map not in CHARTS:
        close = difflib.get_close_matches(map, CHARTS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown map {map!r}: {hint}choose one of auto, {', '.join(CHARTS)}")
    if weight.is_complex() and not CHARTS[map].allows_complex:
        able = " or ".join(repr(name) for name, chart in CHARTS.items() if chart.allows_complex)
        raise ValueError(f"map {map!r} is for real weights, and this one is of {weight.dtype}: choose {able}")
    if num_reflections is not None and map != "householder":
        raise ValueError(f"num_reflections={num_reflections} is for map 'householder', not for {map!r}: leave it out")
    if num_rotations is not None and map != "givens":
        raise ValueError(f"num_rotations={num_rotations} is for map 'givens', not for {map!r}: leave it out")
    return map


def _partial_size(layout: Layout, map: str, num_reflections: int | None, num_rotations: int | None) -> int | None:
    """How many reflections or pivots a partial family has; None if it is not partial."""
    rows, columns = layout.frame_shape[-2:]
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


def _check_options(layout: Layout, weight: Tensor, determinant: int | None, start: str | None) -> None:
    rows, columns = layout.frame_shape[-2:]
    if start is not None and start not in STARTS:
        raise ValueError(f"unknown start {start!r}: choose one of {', '.join(STARTS)}, or None")
    if determinant is None:
        return
    if determinant not in (1, -1):
        raise ValueError(f"determinant={determinant} of an orthogonal matrix does not exist: choose 1, -1 or None")
    if rows != columns or weight.is_complex():
        kind = "complex" if weight.is_complex() else f"{rows} x {columns}"
        raise ValueError(f"determinant={determinant} is for square real weights, and this one is {kind}: leave it out")
