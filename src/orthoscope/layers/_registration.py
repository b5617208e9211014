"""Registration of a parametrization: checked, on a new tensor, picklable, and able to load plain checkpoints.

torch gives every parametrized module a class of its own at run time, which cannot be imported by name. `make_picklable`
lets such modules be pickled, saved whole, sent to another process, and copied independently.
"""

import copy
import difflib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from orthoscope.layers.charts import CHARTS
from orthoscope.layers.parametrization import OrthogonalParametrization, as_once_stored, rounding_tolerance
from orthoscope.linalg import orthonormality_error, polar_factor


def make_picklable(module: nn.Module) -> None:
    """Let the class that torch made for this parametrized module be pickled and copied by its parts."""
    made = type(module)
    made.__reduce_ex__ = _reduce  # type: ignore[assignment]
    # Copies made by torch share that class: removing the parametrization of one would break the other.
    if "__deepcopy__" in vars(made):
        made.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]


def blank_parametrized(cls: type[nn.Module], names: tuple[str, ...]) -> nn.Module:
    """A module of a class like `cls` whose attributes `names` are parametrized, without state."""
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name in names:
        module.register_parameter(name, nn.Parameter(torch.empty(0)))
        parametrize.register_parametrization(module, name, nn.Identity(), unsafe=True)
    make_picklable(module)
    return module


def _parts(module: nn.Module) -> tuple[type[nn.Module], tuple[str, ...], Any]:
    names = tuple(module.parametrizations)  # type: ignore[arg-type]
    cls = parametrize.type_before_parametrizations(module)
    # Recurrent layers recompute their weights here; with an autograd graph these could not be copied.
    with torch.no_grad():
        return cls, names, cls.__getstate__(module)  # type: ignore[call-arg]


def _reduce(module: nn.Module, protocol: Any) -> tuple[Callable[..., nn.Module], tuple[Any, ...], Any]:
    cls, names, state = _parts(module)
    return blank_parametrized, (cls, names), state


def _deepcopy(module: nn.Module, memo: dict[int, Any]) -> nn.Module:
    cls, names, state = _parts(module)
    memo[id(module)] = duplicate = blank_parametrized(cls, names)
    duplicate.__setstate__(copy.deepcopy(state, memo))
    return duplicate


def register(module: nn.Module, name: str, parametrization: nn.Module, beginning: Tensor) -> None:
    """Parametrize a weight that starts with the value `beginning`; if that fails, the module is unchanged.

    torch would write the coordinates into the tensor of the weight. Here they are a new tensor: another module that
    shares the weight, or an optimizer that holds it, keeps the old one.
    """
    weight = getattr(module, name)
    fresh: Tensor = beginning.detach().clone()
    if isinstance(weight, nn.Parameter):
        fresh = nn.Parameter(fresh, requires_grad=weight.requires_grad)
    setattr(module, name, fresh)
    try:
        parametrize.register_parametrization(module, name, parametrization, unsafe=weight.is_meta)
    except Exception:
        setattr(module, name, weight)
        raise
    if weight.dtype != beginning.dtype:
        module.parametrizations[name].to(weight.dtype)  # type: ignore[index]
    make_picklable(module)


def translate_checkpoint(
    module: nn.Module, state: dict[str, Any], prefix: str, metadata: dict[str, Any], *lists: Any
) -> None:
    """Replace `weight` by `parametrizations.weight.original` and its anchor; report what cannot be loaded.

    A weight, or an anchor that is a frame, is replaced by the nearest orthonormal one if its deviation can come from
    rounding. Errors are reported with `strict=False` too: the weight would be wrong.
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
    """Let `load_state_dict` of this module translate what it is given for its parametrized weights, or report it."""
    # One hook serves all weights of a module, and does nothing when none is parametrized any more.
    registered = module._load_state_dict_pre_hooks.values()
    if not any(getattr(hook, "hook", None) is translate for hook in registered):
        module.register_load_state_dict_pre_hook(translate)


def _refuse_other_maps(module: nn.Module, state: dict[str, Any], prefix: str, errors: list[str]) -> None:
    """Report coordinates of another map: their shapes are often the same, but they would give a wrong weight."""
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
    """Load the layer's own values: torch continues after an error, and would also report a missing key."""
    stored = module.parametrizations[name].state_dict(keep_vars=True)  # type: ignore[index, union-attr]
    state.update({f"{inner}{key}": value for key, value in stored.items()})


def _orthogonal_weights(module: nn.Module) -> Iterator[tuple[str, OrthogonalParametrization]]:
    if parametrize.is_parametrized(module):
        for name, parametrizations in module.parametrizations.items():  # type: ignore[operator, union-attr]
            # If another parametrization follows, the plain weight is not the output of this one.
            if len(parametrizations) == 1 and isinstance(parametrizations[0], OrthogonalParametrization):
                yield name, parametrizations[0]


def _orthonormal_anchor(parametrization: OrthogonalParametrization, anchor: Tensor) -> Tensor:
    """The orthonormal frame of which an anchor in a checkpoint is a rounding."""
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


def check_map(map: str) -> None:
    if map != "auto" and map not in CHARTS:
        close = difflib.get_close_matches(str(map), CHARTS, n=1, cutoff=0.4)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"unknown map {map!r}: {hint}choose one of auto, {', '.join(CHARTS)}")
