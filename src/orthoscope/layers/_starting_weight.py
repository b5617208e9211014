"""The initial weight of an orthogonal layer: the given one, the nearest orthonormal one, or a random one."""

import torch
from torch import Tensor

from orthoscope.layers.parametrization import OrthogonalParametrization, rounding_tolerance
from orthoscope.linalg import haar, orthonormality_error, polar_factor
from orthoscope.linalg.precision import to_double

STARTS = ("nearest", "haar", "keep")


@torch.no_grad()
def starting_weight(
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
