r"""Replace the activation modules of a model in place by shaped, leaky or blended ones.

Only modules can be replaced. A function called inside a `forward`, such as `F.relu`, is not visible from outside.
"""

import copy
import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import parametrize

from orthoscope.activations.modules import ShapedActivation, activation_modules, named_modules, toward_identity
from orthoscope.activations.table import require_elementwise

_NEAR_ZERO = 1e-6


def blend_activations_(model: nn.Module, strengths: Mapping[str, float]) -> list[str]:
    """Replace activation modules by ones blended toward the identity (`toward_identity`).

    Args:
        model: Changed in place.
        strengths: Strength by the printed form of a module: `{"ReLU()": 0.2}` turns every `nn.ReLU()` into a leaky
            ReLU of slope 0.8.

    Returns:
        The names of the replaced modules.

    Raises:
        ValueError: If a printed form fits no activation module; nothing is replaced then.
    """
    found = list(activation_modules(model))
    unknown = [text for text in strengths if text not in {repr(module) for _, module in found}]
    if unknown or not strengths:
        raise ValueError(
            f"no activation module prints as {(unknown or ['anything'])[0]!r}: there are "
            f"{', '.join(sorted({repr(module) for _, module in found})) or 'none (they are functions in forward)'}"
        )
    chosen = [
        (name, toward_identity(module, strengths[repr(module)])) for name, module in found if repr(module) in strengths
    ]
    for name, blended in chosen:
        model.set_submodule(name, blended.train(model.get_submodule(name).training))
    return [name for name, _ in chosen]


def linearizable_activations(model: nn.Module) -> list[str]:
    r"""Names of the modules that a small gain makes linear: elementwise, $\phi(0) = 0$, one slope at 0, not linear.

    Any module without parameters is considered, known or not. ReLU and its relatives are not among them: no gain
    changes them (see `shape_leaky_`).

    Args:
        model: Searched, not changed.
    """
    inside = [f"{name}." for name, module in named_modules(model).items() if isinstance(module, ShapedActivation)]
    return [
        name
        for name, module in named_modules(model).items()
        if not name.startswith(tuple(inside)) and _is_linearizable(module)
    ]


def shape_activations_(model: nn.Module, gains: Mapping[str, float] | int | float) -> dict[str, float]:
    r"""Replace activation modules by $\phi(\alpha x)/\alpha$ (`ShapedActivation`).

    Args:
        model: Changed in place.
        gains: The gain $\alpha$ by module name, or one number for all `linearizable_activations`. A module that is
            shaped already gets the new gain.

    Returns:
        The gain that each module had before (1 if it was not shaped): passed to this function, it restores the model.

    Raises:
        ValueError: If there is no module of a given name, or a gain is 0 or not finite; nothing is replaced then.
    """
    if not isinstance(gains, Mapping):
        gains = dict.fromkeys(require_linearizable(model), float(gains))
    modules = named_modules(model)
    unknown = sorted(set(gains) - set(modules) | {name for name in gains if not name})
    if unknown:
        raise ValueError(f"the model has no module named {unknown[0]!r} to shape: see linearizable_activations(model)")
    # All are made before any is placed: a refused gain leaves the model unchanged.
    shaped = {name: module for name, module in modules.items() if isinstance(module, ShapedActivation)}
    before = {name: shaped[name].gain if name in shaped else 1.0 for name in gains}
    made = {
        name: ShapedActivation(shaped[name].activation if name in shaped else modules[name], gain)
        for name, gain in gains.items()
    }
    for name, module in made.items():
        model.set_submodule(name, module.train(modules[name].training))
    return before


def require_linearizable(model: nn.Module) -> list[str]:
    """`linearizable_activations`; a ValueError if there is none."""
    found = linearizable_activations(model)
    if not found:
        kinds = sorted({type(m).__name__ for m in model.modules() if not list(m.children())})
        raise ValueError(
            "found no activation that a gain makes linear: functions called inside forward cannot be replaced, and "
            f"ReLU-like modules do not change with a gain (see shape_leaky_); modules found: {', '.join(kinds)}"
        )
    return found


def _is_linearizable(module: nn.Module) -> bool:
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


class LeakyChange(NamedTuple):
    r"""What `shape_leaky_` changed.

    Attributes:
        activations: Names of the modules that are now `nn.LeakyReLU(slope)`.
        weights: By layer name, the factor that its weight was multiplied by.
        slope: The slope below 0.
        weight_gain: $\sqrt{2/(1 + \text{slope}^2)}$, the gain for weights that are drawn again.
    """

    activations: tuple[str, ...]
    weights: dict[str, float]
    slope: float
    weight_gain: float


def shape_leaky_(model: nn.Module, slope: int | float, *, rescale: bool = True) -> LeakyChange:
    r"""Replace every `nn.ReLU` and `nn.LeakyReLU` by `nn.LeakyReLU(slope)`, and rescale the weights that follow.

    $\mathbb{E}\phi(X)^2$ is $(1+a^2)/2$ at slope $a$, so weights that preserved the variance after a slope $b$, by the
    gain $\sqrt{2/(1+b^2)}$, are multiplied by $\sqrt{(1+b^2)/(1+a^2)}$.

    Args:
        model: Changed in place.
        slope: The slope $a$ below 0, from 0 to 1; `theory.leaky_slope` chooses it from the depth.
        rescale: Multiply the first `nn.Linear` or `nn.Conv*` defined after each replaced module. False leaves weights
            as they are, as before a normalization, which removes the scale anyway.

    Raises:
        ValueError: If there is no such module, or a weight to rescale is parametrized; nothing is changed then.
    """
    if not 0 <= slope <= 1:
        raise ValueError(f"the slope below zero is {slope}, but must be between 0 (ReLU) and 1 (linear)")
    modules = named_modules(model)
    found = [name for name, module in modules.items() if _is_leaky(module) and name]
    if not found:
        raise ValueError(
            "found no nn.ReLU or nn.LeakyReLU module to make leaky: F.relu inside a forward cannot be replaced; "
            "make it a module"
        )
    weights = _weight_factors(modules, float(slope)) if rescale else {}
    for name in found:
        leaky = nn.LeakyReLU(float(slope), inplace=bool(modules[name].inplace)).train(modules[name].training)
        model.set_submodule(name, leaky)
    with torch.no_grad():
        for name, factor in weights.items():
            model.get_parameter(f"{name}.weight").mul_(factor)
    return LeakyChange(tuple(found), weights, float(slope), math.sqrt(2 / (1 + slope**2)))


def _weight_factors(modules: dict[str, nn.Module], slope: float) -> dict[str, float]:
    """Factor by layer name, of the first weight layer after each replaced activation."""
    factors: dict[str, float] = {}
    pending: float | None = None  # slope of the last activation whose weight layer has not come yet
    for name, module in modules.items():
        if _is_leaky(module):
            pending = float(module.negative_slope) if isinstance(module, nn.LeakyReLU) else 0.0
        elif pending is not None and isinstance(module, nn.Linear | _ConvNd):
            factor = math.sqrt((1 + pending**2) / (1 + slope**2))
            if parametrize.is_parametrized(module, "weight"):
                raise ValueError(
                    f"the weight of {name} is computed by a parametrization and cannot be rescaled: give rescale=False"
                )
            # A layer with two names has one weight, which is multiplied once.
            first = next((other for other in factors if modules[other].weight is module.weight), None)
            if first is None:
                factors[name] = factor
            elif factors[first] != factor:
                raise ValueError(
                    f"{first} and {name} share a weight, and the activations before them ask for different factors: "
                    "give rescale=False"
                )
            pending = None
    return factors


def _is_leaky(module: nn.Module) -> bool:
    return isinstance(module, nn.ReLU | nn.LeakyReLU)
