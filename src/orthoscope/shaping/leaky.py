r"""ReLU modules of a model made leaky, with the weights that keep the size of its signals."""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.utils import parametrize


class LeakyChange(NamedTuple):
    """What `shape_leaky_` changed."""

    activations: tuple[str, ...]  # modules that are now nn.LeakyReLU(slope)
    weights: dict[str, float]  # layer -> what its weight was multiplied by
    slope: float
    weight_gain: float  # √(2/(1 + slope²)), for weights that are drawn anew


def shape_leaky_(model: nn.Module, slope: int | float, *, rescale: bool = True) -> LeakyChange:
    r"""Replace every `nn.ReLU` and `nn.LeakyReLU` by `nn.LeakyReLU(slope)`; see `leaky_slope` for the slope $a$.

    $\mathbb{E}\phi(X)^2$ is $(1+a^2)/2$, so weights that kept the size of signals behind a slope $b$, by the gain
    $\sqrt{2/(1+b^2)}$, are multiplied by $\sqrt{(1+b^2)/(1+a^2)}$: of the first `nn.Linear` or `nn.Conv*` that is
    defined after each replaced module. `rescale=False` leaves weights alone, as before a norm, which does not see it.
    Refused, with nothing changed, if there is none to replace: `F.relu` inside a forward cannot be seen from outside.
    """
    if not 0 <= slope <= 1:
        raise ValueError(f"the slope below zero is {slope}, but must be between 0 (ReLU) and 1 (linear)")
    modules = dict(model.named_modules(remove_duplicate=False))
    found = [name for name, module in modules.items() if _is_leaky(module) and name]
    if not found:
        raise ValueError(
            "found no nn.ReLU or nn.LeakyReLU module to make leaky: F.relu inside a forward cannot be replaced; "
            "make it a module"
        )
    weights = _factors(modules, float(slope)) if rescale else {}
    for name in found:
        leaky = nn.LeakyReLU(float(slope), inplace=bool(modules[name].inplace)).train(modules[name].training)
        model.set_submodule(name, leaky)
    with torch.no_grad():
        for name, factor in weights.items():
            modules[name].weight.mul_(factor)
    return LeakyChange(tuple(found), weights, float(slope), math.sqrt(2 / (1 + slope**2)))


def _factors(modules: dict[str, nn.Module], slope: float) -> dict[str, float]:
    """Layer to factor: of the first weight layer after each replaced activation."""
    factors: dict[str, float] = {}
    pending: float | None = None
    for name, module in modules.items():
        if _is_leaky(module):
            pending = _slope(module)
        elif pending is not None and isinstance(module, nn.Linear | _ConvNd):
            if parametrize.is_parametrized(module, "weight"):
                raise ValueError(
                    f"the weight of {name} is computed by a parametrization and cannot be rescaled: give rescale=False"
                )
            factors[name] = math.sqrt((1 + pending**2) / (1 + slope**2))
            pending = None
    return factors


def _is_leaky(module: nn.Module) -> bool:
    return isinstance(module, nn.ReLU | nn.LeakyReLU)


def _slope(module: nn.Module) -> float:
    return float(module.negative_slope) if isinstance(module, nn.LeakyReLU) else 0.0
