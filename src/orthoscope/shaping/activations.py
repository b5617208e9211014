"""The activations of a model that a gain can shape, and shaping them where they are."""

import copy
from collections.abc import Mapping

import torch
from torch import nn

from orthoscope.layers import ShapedActivation
from orthoscope.theory.activations import require_elementwise

_NEAR_ZERO = 1e-6


def linearisable_activations(model: nn.Module) -> list[str]:
    r"""Names of the modules that a small gain makes linear: elementwise, $\phi(0) = 0$, one slope at 0, not linear.

    Anybody's modules, known or not; without parameters. Not ReLU and its kin, which no gain changes
    (`shape_leaky_` is for them), and nothing that a `forward` computes by a function, which nobody sees from outside.
    """
    inside = [f"{name}." for name, module in _modules(model).items() if isinstance(module, ShapedActivation)]
    return [
        name
        for name, module in _modules(model).items()
        if not name.startswith(tuple(inside)) and _is_linearisable(module)
    ]


def shape_activations_(model: nn.Module, gains: Mapping[str, float] | int | float) -> dict[str, float]:
    r"""Put $\phi(\alpha x)/\alpha$ in the place of the named modules; with one number, of all `linearisable_activations`.

    A module that is shaped already gets the new gain. Returns, by name, the gain that each had before (1 if it was not
    shaped): given back to this function, the model computes what it did.
    """
    if not isinstance(gains, Mapping):
        gains = dict.fromkeys(require_activations(model), float(gains))
    modules = _modules(model)
    unknown = sorted(set(gains) - set(modules) | {name for name in gains if not name})
    if unknown:
        raise ValueError(f"the model has no module named {unknown[0]!r} to shape: see linearisable_activations(model)")
    # All are made before any is put in place: a gain that is refused leaves the model as it was.
    made = {name: ShapedActivation(_inside(modules[name]), gain) for name, gain in gains.items()}
    before = {name: _gain(modules[name]) for name in gains}
    for name, shaped in made.items():
        model.set_submodule(name, shaped.train(modules[name].training))
    return before


def require_activations(model: nn.Module) -> list[str]:
    """`linearisable_activations`, at least one of them."""
    found = linearisable_activations(model)
    if not found:
        kinds = sorted({type(m).__name__ for m in model.modules() if not list(m.children())})
        raise ValueError(
            "found no activation that a gain makes linear: functions called inside forward cannot be replaced, and "
            f"ReLU-like modules do not feel a gain (see shape_leaky_); modules found: {', '.join(kinds)}"
        )
    return found


def _modules(model: nn.Module) -> dict[str, nn.Module]:
    # One module under two names can have two gains.
    return dict(model.named_modules(remove_duplicate=False))


def _inside(module: nn.Module) -> nn.Module:
    return module.activation if isinstance(module, ShapedActivation) else module


def _gain(module: nn.Module) -> float:
    return module.gain if isinstance(module, ShapedActivation) else 1.0


def _is_linearisable(module: nn.Module) -> bool:
    if isinstance(module, ShapedActivation):
        return True
    if any(True for _ in module.children()) or any(True for _ in (*module.parameters(), *module.buffers())):
        return False
    function = copy.deepcopy(module).eval()
    try:
        require_elementwise(type(module).__name__, function)
    except ValueError:
        return False
    points = torch.tensor([-2.0, -_NEAR_ZERO, 0.0, _NEAR_ZERO, 2.0], dtype=torch.float64)
    with torch.no_grad():
        far_below, below, zero, above, far_above = function(points.clone()).tolist()
    slope = above / _NEAR_ZERO
    one_slope = abs(above + below) <= 1e-3 * abs(above) and above != 0
    linear = abs(far_above - 2 * slope) + abs(far_below + 2 * slope) <= 1e-3 * abs(slope)
    return zero == 0 and one_slope and not linear
