"""What theory needs to know of weights: the variance that a scheme gives them, and a sample to detect changes."""

import math
from collections.abc import Callable

import numpy as np
from torch import nn

from orthoscope.init.schemes import TRANSFORMER_STD, weight_layers
from orthoscope.init.weights import whole

_ENTRIES = 8  # sampled of every weight and bias; training changes all of them

# At gain 1, from fan in and fan out; the docstring of each scheme has the law.
_VARIANCES: dict[str, Callable[[int, int], float]] = {
    "delta-orthogonal": lambda fan_in, fan_out: 1 / max(fan_in, fan_out),
    "gaussian": lambda fan_in, fan_out: 1 / fan_in,
    "he": lambda fan_in, fan_out: 2 / fan_in,
    "lecun": lambda fan_in, fan_out: 1 / fan_in,
    "normal": lambda fan_in, fan_out: TRANSFORMER_STD**2,
    "orthogonal": lambda fan_in, fan_out: 1 / max(fan_in, fan_out),
    "svd-orthogonal": lambda fan_in, fan_out: (
        2 / (fan_in + fan_out) * mean_singular_value(fan_in, fan_out) ** 2 / max(fan_in, fan_out)
    ),
    "torch": lambda fan_in, fan_out: 1 / (3 * fan_in),
    "xavier": lambda fan_in, fan_out: 2 / (fan_in + fan_out),
}


def mean_singular_value(rows: int, columns: int) -> float:
    r"""Mean singular value of a matrix of independent $\mathcal N(0, 1)$ entries, to second order in 1/size.

    $$ \sqrt n\,\Big[ \int \sqrt x\,\rho_c(x)\,dx + \frac1{cn}\Big(\frac{\sqrt a + \sqrt b}{4}
       - \frac1{2\pi}\int_0^\pi \sqrt{x(\theta)}\,d\theta\Big)\Big], \qquad x(\theta) = 1 + c - 2\sqrt c\cos\theta $$

    $n$ is the larger size, $c \le 1$ the ratio of the smaller to it, $a, b = (1 \mp \sqrt c)^2$: the Marchenko–Pastur
    law, and the correction for real matrices (Bai & Silverstein, 2004).
    """
    larger, ratio = max(rows, columns), min(rows, columns) / max(rows, columns)
    theta = (np.arange(2048) + 0.5) * math.pi / 2048  # periodic and smooth but at c = 1: the midpoint rule is exact
    place = 1 + ratio - 2 * math.sqrt(ratio) * np.cos(theta)
    density = 2 * np.sin(theta) ** 2 / place  # ρ(x) dx = density dθ/π
    bulk = float((np.sqrt(place) * density).mean())
    edges = ((1 - math.sqrt(ratio)) + (1 + math.sqrt(ratio))) / 4 - float(np.sqrt(place).mean()) / 2
    return math.sqrt(larger) * (bulk + edges / (ratio * larger))


def weight_variance(scheme: str, fan_in: int, fan_out: int, gain: float = 1.0) -> float:
    r"""$\mathbb{E} W_{ij}^2$ of the named scheme at `gain`.

    Args:
        scheme: A name of `SCHEMES`.
        fan_in: Inputs of one output unit.
        fan_out: Outputs that one input unit reaches.
        gain: Multiplies the weights.

    Raises:
        ValueError: For an unknown scheme.
    """
    if scheme not in _VARIANCES:
        raise ValueError(f"unknown weight scheme {scheme!r}: choose one of {', '.join(_VARIANCES)}")
    return gain**2 * _VARIANCES[scheme](fan_in, fan_out)


def bias_variance(scheme: str, fan_in: int) -> float:
    """Variance of a bias: zero, except for PyTorch's default, which draws biases like weights."""
    return weight_variance(scheme, fan_in, fan_in) if scheme == "torch" else 0.0


def weight_sample(model: nn.Module) -> tuple[float, ...]:
    """A few evenly spaced entries of every weight and bias that is not on the meta device.

    Sharded ones are gathered, so all processes must call.
    """
    found: list[float] = []
    for _, layer in weight_layers(model):
        for values in (layer.weight, layer.bias):
            if values is not None and not values.is_meta:
                flat = whole(values.detach()).flatten()
                found += flat[:: max(1, len(flat) // _ENTRIES)].tolist()
    return tuple(found)
