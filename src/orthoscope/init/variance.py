"""The variance a scheme gives to the entries of a weight: what theory needs to know of it."""

from collections.abc import Callable

from orthoscope.init.normal import TRANSFORMER_STD

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
