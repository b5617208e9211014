"""What an orthogonal layer does with a checkpoint: the plain weight loads, the coordinates of another map do not."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.layers.charts import CHARTS
from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.rounding import as_once_stored, rounding_tolerance
from orthoscope.linalg import orthonormality_error, polar_factor


def translate_checkpoint(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any], *lists: Any
) -> None:
    """Replace `weight` by `parametrizations.weight.original` and its anchor; refuse, by name, what cannot be loaded.

    A weight, or an anchor that is a frame, is taken as its nearest orthonormal one, if rounding to the type of its
    numbers can have moved it that far. What is refused is refused with `strict=False` too: it would be a wrong weight.
    """
    *_, errors = lists
    _refuse_other_maps(module, state, prefix, errors)
    for name, parametrization in _orthogonal_weights(module):
        plain, inner = f"{prefix}{name}", f"{prefix}parametrizations.{name}."
        original, anchor = f"{inner}original", f"{inner}0.{parametrization.anchor_name}"
        try:
            if plain in state and original not in state:
                state[original], state[anchor] = parametrization.coordinates(as_once_stored(state.pop(plain)))
            elif anchor in state and parametrization.chart.anchored_by_frame:
                state[anchor] = _orthonormal_anchor(parametrization, state[anchor])
        except ValueError as reason:
            errors.append(f"{plain}: {reason}")
            _keep(module, name, state, inner)
        if metadata.get("assign_to_params_buffers", False) and original in state:
            parametrization.dtype = state[original].dtype


def translate_when_loading(module: nn.Module, translate: Callable[..., None] = translate_checkpoint) -> None:
    """Let `load_state_dict` of this module translate, or refuse, what it is given for its parametrized weights."""
    # One hook serves all weights of a module, and idles when none is parametrized any more.
    registered = module._load_state_dict_pre_hooks.values()
    if not any(getattr(hook, "hook", None) is translate for hook in registered):
        module.register_load_state_dict_pre_hook(translate)


def _refuse_other_maps(module: nn.Module, state: dict[str, Any], prefix: str, errors: list[str]) -> None:
    """Coordinates of one map are a wrong weight in another; their shapes are often the same."""
    if not parametrize.is_parametrized(module):
        return
    for name, parametrizations in module.parametrizations.items():  # type: ignore[operator, union-attr]
        inner = f"{prefix}parametrizations.{name}."
        for path, part in parametrizations.named_modules():
            if not isinstance(part, OrthogonalParametrization):
                continue
            foreign = {map: f"{inner}{path}.{map}_anchor" for map in CHARTS if map != part.map}
            for map in [map for map, key in foreign.items() if key in state]:
                errors.append(
                    f"{prefix}{name}: the checkpoint has coordinates of map {map!r} and this layer has map "
                    f"{part.map!r}: make the layer with map={map!r}, or load the plain weight instead"
                )
                del state[foreign[map]]
                _keep(module, name, state, inner)


def _keep(module: nn.Module, name: str, state: dict[str, Any], inner: str) -> None:
    """Load what the layer has now: torch goes on after an error, and would complain of a missing key as well."""
    stored = module.parametrizations[name].state_dict(keep_vars=True)  # type: ignore[index, union-attr]
    state.update({f"{inner}{key}": value for key, value in stored.items()})


def _orthogonal_weights(module: nn.Module) -> Iterator[tuple[str, OrthogonalParametrization]]:
    if parametrize.is_parametrized(module):
        for name, parametrizations in module.parametrizations.items():  # type: ignore[operator, union-attr]
            # Others may follow ours on the same weight; then the plain weight is not what ours made.
            if len(parametrizations) == 1 and isinstance(parametrizations[0], OrthogonalParametrization):
                yield name, parametrizations[0]


def _orthonormal_anchor(parametrization: OrthogonalParametrization, anchor: Tensor) -> Tensor:
    """A base frame that was rounded on its way through a checkpoint, as the frame it was."""
    wanted = parametrization.anchor
    if anchor.shape != wanted.shape or anchor.is_meta:
        return anchor
    error = orthonormality_error(anchor).max().item()
    types = (as_once_stored(anchor).dtype, wanted.dtype)
    if not error <= max(rounding_tolerance(dtype, wanted.shape[-2]) for dtype in types):
        raise ValueError(f"its anchor is not orthonormal (max |W'W - I| is {error:.2g}): the checkpoint is damaged")
    if error > 8 * torch.finfo(wanted.dtype).eps:
        return polar_factor(anchor.to(wanted.dtype))
    return anchor
