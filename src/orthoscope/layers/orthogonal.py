"""Layers whose weight is orthonormal by construction, for all values of its coordinates."""

import warnings
from typing import TypeVar

import torch
from torch import Tensor, nn

from orthoscope.layers._registration import check_map, check_module, owned_tensor, register, translate_when_loading
from orthoscope.layers.charts import CHARTS, chosen_map
from orthoscope.layers.parametrization import Layout, OrthogonalParametrization, computing_dtype, rounding_tolerance
from orthoscope.linalg import givens_count, haar, orthonormality_error, polar_factor
from orthoscope.linalg.precision import to_double

Module = TypeVar("Module", bound=nn.Module)

STARTS = ("nearest", "haar", "keep")
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
    r"""Keep a weight orthonormal during training, $W^\mathsf{H}W = I$ (if wide, $WW^\mathsf{H} = I$).

    A weight of more than two dimensions is a batch of matrices. The weight of a convolution is, for every group, the
    matrix `(out, in·k·k)` of one output position, which does not make it an isometry of images; see
    `orthogonal_convolution`. The gates of an `nn.LSTM` are one matrix.

    The coordinates are a new parameter: create the optimizer after this call, with `weight_decay=0` for them, since
    decay moves the weight within its manifold. Assigning an orthonormal `module.weight` keeps it, any other is refused;
    `load_state_dict` also takes the plain weight. Derivatives are of any order by `backward`; forward mode, so
    `torch.func.jvp` and `hessian`, is for "cayley" and "exponential" only.

    Args:
        module: The layer that owns the weight; it is modified.
        name: Name of the parameter or buffer.
        map: "householder", "cayley", "exponential" (stores a whole base frame) or "givens". "auto" takes "cayley", or
            for weights at least twice as tall as wide "householder"; `repr(module)` says which. Complex weights need
            "cayley" or "exponential".
        num_reflections: With "householder", fewer than the full number give a cheaper, partial family.
        num_rotations: With "givens", the same. Rotations come in fans, each coordinate with all later ones, so that
            $p$ fans of $n$ rows are $p(2n-p-1)/2$ rotations.
        determinant: +1 or -1, for square real weights; by default that of the starting weight. Training cannot change
            it.
        start: What replaces a weight that is not orthonormal to rounding, $\max|W^\mathsf{H}W - I| \le
            2\varepsilon_\text{stored} + 10\sqrt n\,\varepsilon_\text{computed}$: the nearest one, with a warning (None)
            or without ("nearest"), or nothing, which raises ("keep"). "haar" replaces any weight by a random one.
        generator: Source of random numbers for "haar".

    Returns:
        The module.

    Raises:
        TypeError, ValueError: For arguments or weights that do not fit, with a remedy. The module is then unchanged.

    Example:
        >>> layer = orthoscope.layers.orthogonal(nn.Linear(64, 64), start="haar")
        >>> bool(orthoscope.linalg.orthonormality_error(layer.weight) < 1e-5)
        True
    """
    check_module(module, generator)
    weight = _matrix_weight(module, name, start)
    parametrization = _parametrization(module, name, weight, map, num_reflections, num_rotations)
    _check_beginning(parametrization.layout, weight, determinant, start)
    beginning, remark = weight.detach(), None
    if not weight.is_meta:
        beginning, remark = _starting_weight(parametrization, beginning, start, determinant, generator)
    register(module, name, parametrization, beginning.to(device=weight.device, dtype=parametrization.dtype))
    translate_when_loading(module)
    if remark is not None:
        warnings.warn(remark, stacklevel=2)
    return module


def _parametrization(
    module: nn.Module, name: str, weight: Tensor, map: str, num_reflections: int | None, num_rotations: int | None
) -> OrthogonalParametrization:
    """The parametrization that the options ask for."""
    layout = Layout.of(module, name)
    # In full precision at first: rounded to bfloat16, a member of a partial family would leave it.
    return OrthogonalParametrization(
        layout,
        _map_for(layout, weight, map, num_reflections, num_rotations),
        _partial_size(layout, num_reflections, num_rotations),
        dtype=computing_dtype(weight.dtype),
        device=weight.device,
        chosen=map == "auto",
        path=f"parametrizations.{name}[0]",
    )


def _matrix_weight(module: nn.Module, name: str, start: str | None) -> Tensor:
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


def _map_for(layout: Layout, weight: Tensor, map: str, num_reflections: int | None, num_rotations: int | None) -> str:
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


def _partial_size(layout: Layout, num_reflections: int | None, num_rotations: int | None) -> int | None:
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


def _check_beginning(layout: Layout, weight: Tensor, determinant: int | None, start: str | None) -> None:
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


@torch.no_grad()
def _starting_weight(
    parametrization: OrthogonalParametrization,
    weight: Tensor,
    start: str | None,
    determinant: int | None,
    generator: torch.Generator | None,
) -> tuple[Tensor, str | None]:
    """A weight that the parametrization can represent: the given one if possible, else as `start` says.

    A weight is kept if it is orthonormal up to `rounding_tolerance` and, for a partial family, a member of it;
    `start="haar"` keeps none. Returned with a remark if `start` is None and the weight is not the given one.
    """
    if start == "haar":
        return _on_component(_random_weight(parametrization, weight, generator), determinant, parametrization), None
    obstacle = _obstacle(parametrization, weight)
    if obstacle is None:
        # A weight in half precision is orthonormal only up to its rounding, which is removed.
        kept = weight if weight.dtype == parametrization.dtype else parametrization.nearest(to_double(weight))
        turned = _on_component(kept, determinant, parametrization)
        if torch.equal(turned, kept):
            return kept, None
        if start == "keep":
            raise ValueError(
                f"start='keep' keeps the determinant of the weight, which is not {determinant}: leave one out"
            )
        said = f"the weight got determinant={determinant} by negating a column: start='nearest' does so silently"
        return turned, said if start is None else None
    if start == "keep":
        raise ValueError(f"{obstacle}, so start='keep' cannot keep it: choose start='nearest' or start='haar'")
    if parametrization.size is None:
        silent, what, replacement = "nearest", "the nearest orthonormal one", parametrization.nearest(to_double(weight))
    elif start == "nearest":
        raise ValueError(f"{obstacle}, and the nearest member of a partial family has no formula: choose start='haar'")
    else:
        silent, what = "haar", "a random member of the family"
        replacement = _random_weight(parametrization, weight, generator)
    said = f"{obstacle}; it was replaced by {what}: start={silent!r} does so silently"
    return _on_component(replacement, determinant, parametrization), said if start is None else None


def _obstacle(parametrization: OrthogonalParametrization, weight: Tensor) -> str | None:
    """Why a weight cannot be kept, or None."""
    frame = parametrization.layout.frame(weight)
    error, allowed = orthonormality_error(frame).max().item(), rounding_tolerance(weight.dtype, frame.shape[-2])
    if error > allowed:
        return f"the weight is not orthonormal (max |W'W - I| is {error:.2g}, {allowed:.2g} is allowed)"
    if parametrization.size is None:
        return None
    try:
        parametrization.coordinates(weight)
    except ValueError:
        return "the weight is orthonormal, but not a product of so few reflections or rotations"
    return None


def _random_weight(
    parametrization: OrthogonalParametrization, like: Tensor, generator: torch.Generator | None
) -> Tensor:
    """Uniform over all orthonormal weights; of a partial family, the first reflections or rotations of such a one."""
    *batch, rows, columns = parametrization.layout.frame_shape
    device = like.device if generator is None else generator.device
    if like.is_complex():
        gaussian = torch.randn(*batch, rows, columns, generator=generator, dtype=torch.complex128, device=device)
        frame = polar_factor(gaussian)  # as uniform as the Gaussian, which no unitary matrix changes
    else:
        frame = haar(rows, columns, *batch, generator=generator, dtype=torch.float64, device=device)
    chart, size = parametrization.chart, parametrization.size
    if chart.partial is not None and size is not None:
        frame = chart.frame(*chart.partial.beginning(frame, size), rows, size)
    return parametrization.layout.weight(frame)


def _on_component(weight: Tensor, determinant: int | None, parametrization: OrthogonalParametrization) -> Tensor:
    """The weight with the last column of its frame negated if the determinant has the wrong sign."""
    if determinant is None:
        return weight
    frame = parametrization.layout.frame(weight)
    signs = torch.linalg.det(frame.double()).sign() * determinant
    turned = torch.cat([frame[..., :-1], frame[..., -1:] * signs[..., None, None].to(frame.dtype)], dim=-1)
    return parametrization.layout.weight(turned)
