"""Checkpoints that hold the plain weight, as an unparametrized layer saves it, load into an orthogonal layer."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from orthoscope.layers.parametrization import OrthogonalParametrization
from orthoscope.layers.rounding import COARSEST, rounding_tolerance
from orthoscope.linalg import orthonormality_error, polar_factor


def accept_plain_weights(module: nn.Module) -> None:
    """Let `load_state_dict` of this module translate a plain weight into coordinates and anchor."""
    # One hook serves all weights of a module, and idles when none is parametrized any more.
    registered = module._load_state_dict_pre_hooks.values()
    if not any(getattr(hook, "hook", None) is translate_checkpoint for hook in registered):
        module.register_load_state_dict_pre_hook(translate_checkpoint)


def translate_checkpoint(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any], *lists: Any
) -> None:
    """Replace `weight` by `parametrizations.weight.original` and its anchor; refuse, by name, what is not orthonormal.

    Up to the rounding of bfloat16 a weight, or an anchor that is a frame, is taken as its nearest orthonormal one.
    """
    *_, errors = lists
    for name, parametrization in _orthogonal_weights(module):
        plain, inner = f"{prefix}{name}", f"{prefix}parametrizations.{name}."
        original, anchor = f"{inner}original", f"{inner}0.{parametrization.anchor_name}"
        try:
            if plain in state and original not in state:
                # What stands there now keeps torch from complaining a second time, if the weight is refused.
                given = state.pop(plain)
                state[original], state[anchor] = _stored(module, name), parametrization.anchor
                state[original], state[anchor] = _translated(parametrization, given)
            elif anchor in state and parametrization.chart.anchored_by_frame:
                state[anchor] = _orthonormal_anchor(parametrization, state[anchor])
        except ValueError as reason:
            errors.append(f"{plain}: {reason}")
        if metadata.get("assign_to_params_buffers", False) and original in state:
            parametrization.dtype = state[original].dtype


def _orthogonal_weights(module: nn.Module) -> Iterator[tuple[str, OrthogonalParametrization]]:
    if parametrize.is_parametrized(module):
        for name, parametrizations in module.parametrizations.items():  # type: ignore[operator, union-attr]
            # Others may follow ours on the same weight; then the plain weight is not what ours made.
            if len(parametrizations) == 1 and isinstance(parametrizations[0], OrthogonalParametrization):
                yield name, parametrizations[0]


def _stored(module: nn.Module, name: str) -> Tensor:
    return module.parametrizations[name].original  # type: ignore[index, union-attr]


def _translated(parametrization: OrthogonalParametrization, weight: Tensor) -> tuple[Tensor, Tensor]:
    coarse = rounding_tolerance(COARSEST, parametrization.layout.frame_shape[-2])
    return parametrization.coordinates(weight, tolerance=coarse)


def _orthonormal_anchor(parametrization: OrthogonalParametrization, anchor: Tensor) -> Tensor:
    """A base frame that was rounded on its way through a checkpoint, as the frame it was."""
    wanted = parametrization.anchor
    error = orthonormality_error(anchor).max().item() if anchor.shape == wanted.shape and not anchor.is_meta else 0.0
    if not error <= rounding_tolerance(COARSEST, wanted.shape[-2]):
        raise ValueError(f"its anchor is not orthonormal (max |W'W - I| is {error:.2g}): the checkpoint is damaged")
    if error > 8 * torch.finfo(wanted.dtype).eps:
        return polar_factor(anchor.to(wanted.dtype))
    return anchor
