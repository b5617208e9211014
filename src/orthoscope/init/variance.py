"""What theory needs to know of weights: the variance a scheme gives them, and whether they are still as drawn."""

from collections.abc import Callable

from torch import nn

from orthoscope.init.normal import TRANSFORMER_STD
from orthoscope.init.schemes import weight_layers
from orthoscope.init.sharded import whole

_ENTRIES = 8  # of every weight and bias; training moves all of them

# At gain 1, from fan in and fan out; the docstring of each scheme has the law.
_VARIANCES: dict[str, Callable[[int, int], float]] = {
    "gaussian": lambda fan_in, fan_out: 1 / fan_in,
    "he": lambda fan_in, fan_out: 2 / fan_in,
    "normal": lambda fan_in, fan_out: TRANSFORMER_STD**2,
    "orthogonal": lambda fan_in, fan_out: 1 / max(fan_in, fan_out),
    "torch": lambda fan_in, fan_out: 1 / (3 * fan_in),
    "xavier": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
}


def weight_variance(scheme: str, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
    r"""$\mathbb{E} W_{ij}^2$ of the named scheme, `gain`² times that at gain 1."""
    if scheme not in _VARIANCES:
        raise ValueError(f"unknown weight scheme {scheme!r}: choose one of {', '.join(_VARIANCES)}")
    return gain**2 * _VARIANCES[scheme](fan_in, fan_out)


def bias_variance(scheme: str, fan_in: int) -> float:
    """The variance of a bias: zero, but for PyTorch's own scheme, which draws it as the weights."""
    return weight_variance(scheme, fan_in, fan_in) if scheme == "torch" else 0.0


def weight_sample(model: nn.Module) -> tuple[float, ...]:
    """A few entries of every weight and bias, spread over it, as numbers; none of a model without values.

    Sharded ones are gathered, so all ranks must ask.
    """
    found: list[float] = []
    for _, layer in weight_layers(model):
        for values in (layer.weight, layer.bias):
            if values is not None and not values.is_meta:
                flat = whole(values.detach()).flatten()
                found += flat[:: max(1, len(flat) // _ENTRIES)].tolist()
    return tuple(found)
