"""Kernel maps by mpmath at 50 digits, from definitions written here: running this file writes the table, in minutes.

Nothing is shared with the library: activations are spelled out, integrals are Gauss-Legendre panels of 48 nodes on
[-16, 16] cut at the kinks, and maps are Hermite series of 400 terms (0.9^400 = 5e-19).
"""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from mpmath import mp, mpf
from mpmath.calculus.quadrature import GaussLegendre

TABLE = Path(__file__).with_name("kernel_maps.json")
OVERLAPS = ("-0.9", "-0.5", "0.3", "0.9")
TERMS = 400
REACH = 16
Function = Callable[[mpf], mpf]

mp.dps = 50


def _sigmoid(x: mpf) -> mpf:
    return 1 / (1 + mp.exp(-x))


def _softplus(x: mpf) -> mpf:
    return mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))


def _gelu_tanh(x: mpf) -> mpf:
    return x / 2 * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mpf("0.044715") * x**3)))


def _clamp(x: mpf, low: mpf, high: mpf) -> mpf:
    return min(max(x, low), high)


_SELU_SCALE, _SELU_ALPHA = mpf("1.0507009873554804934193349852946"), mpf("1.6732632423543772848170429916717")

# Function, kinks.
ACTIVATIONS: dict[str, tuple[Function, tuple[int | float, ...]]] = {
    "tanh": (mp.tanh, ()),
    "sin": (mp.sin, ()),
    "cube": (lambda x: x**3, ()),
    "selu": (lambda x: _SELU_SCALE * (x if x > 0 else _SELU_ALPHA * mp.expm1(x)), (0,)),
    "sigmoid": (_sigmoid, ()),
    "softplus": (_softplus, ()),
    "relu": (lambda x: max(x, mpf(0)), (0,)),
    "exp": (mp.exp, ()),
    "gelu": (lambda x: x * mp.ncdf(x), ()),
    "silu": (lambda x: x * _sigmoid(x), ()),
    # Beyond the ten of the reference:
    "elu": (lambda x: x if x > 0 else mp.expm1(x), (0,)),
    "erf": (mp.erf, ()),
    "hardtanh": (lambda x: _clamp(x, mpf(-1), mpf(1)), (-1, 1)),
    "leaky_relu": (lambda x: x if x > 0 else mpf("0.01") * x, (0,)),
    "mish": (lambda x: x * mp.tanh(_softplus(x)), ()),
    "sign": (mp.sign, (0,)),
    "softsign": (lambda x: x / (1 + abs(x)), (0,)),
    "abs": (abs, (0,)),
    "arctan": (mp.atan, ()),
    "cos": (mp.cos, ()),
    "gelu_tanh": (_gelu_tanh, ()),
    "hard_sigmoid": (lambda x: _clamp(x / 6 + mpf("0.5"), mpf(0), mpf(1)), (-3, 3)),
    "hard_swish": (lambda x: x * _clamp(x / 6 + mpf("0.5"), mpf(0), mpf(1)), (-3, 3)),
    "hardshrink": (lambda x: x if abs(x) > 0.5 else mpf(0), (-0.5, 0.5)),
    "logsigmoid": (lambda x: -_softplus(-x), ()),
    "relu6": (lambda x: _clamp(x, mpf(0), mpf(6)), (0, 6)),
    "sinh": (mp.sinh, ()),
    "softshrink": (lambda x: mp.sign(x) * max(abs(x) - mpf("0.5"), mpf(0)), (-0.5, 0.5)),
    "square": (lambda x: x**2, ()),
    "squared_relu": (lambda x: max(x, mpf(0)) ** 2, (0,)),
    "step": (lambda x: mpf(1) if x > 0 else mpf(0), (0,)),
    "tanhshrink": (lambda x: x - mp.tanh(x), ()),
}
JUMPING = ("sign", "step", "hardshrink")


def panels(kinks: tuple[int | float, ...]) -> list[mpf]:
    return sorted({mpf(k) * 3 / 4 for k in range(-21, 22)} | {mpf(k) for k in kinks} | {mpf(-REACH), mpf(REACH)})


def grid(kinks: tuple[int | float, ...]) -> list[tuple[mpf, mpf]]:
    """Nodes and weights, the Gaussian density included."""
    edges, rule = panels(kinks), GaussLegendre(mp).calc_nodes(5, mp.prec)
    return [
        ((a + b) / 2 + (b - a) / 2 * x, (b - a) / 2 * w * mp.npdf((a + b) / 2 + (b - a) / 2 * x))
        for a, b in pairwise(edges)
        for x, w in rule
    ]


def squared_coefficients(function: Function, kinks: tuple[int | float, ...], terms: int) -> list[mpf]:
    """(E φ he_k)² by the three-term recursion."""
    nodes = grid(kinks)
    weighted = [w * function(x) for x, w in nodes]
    previous, current = [mpf(0)] * len(nodes), [mpf(1)] * len(nodes)
    found = []
    for k in range(terms):
        found.append(mp.fdot(weighted, current) ** 2)
        low, high = mp.sqrt(k), 1 / mp.sqrt(k + 1)
        following = [(x * b - low * a) * high for (x, _), a, b in zip(nodes, previous, current, strict=True)]
        previous, current = current, following
    return found


def energy(function: Function, kinks: tuple[int | float, ...]) -> mpf:
    return mp.fsum(w * function(x) ** 2 for x, w in grid(kinks))


def slope_energy(function: Function, kinks: tuple[int | float, ...]) -> mpf:
    return mp.fsum(w * mp.diff(function, x, h=mpf(10) ** -20) ** 2 for x, w in grid(kinks))


def row(name: str) -> dict[str, object]:
    function, kinks = ACTIVATIONS[name]
    total = energy(function, kinks)
    squares = [square / total for square in squared_coefficients(function, kinks, TERMS)]
    values = [mp.fsum(s * mpf(r) ** k for k, s in enumerate(squares)) for r in OVERLAPS]
    slopes = [mp.fsum(k * s * mpf(r) ** (k - 1) for k, s in enumerate(squares) if k) for r in OVERLAPS]
    at_one = mp.inf if name in JUMPING else slope_energy(function, kinks) / total
    return {
        "scale": mp.nstr(mp.sqrt(total), 20),
        "at_zero": mp.nstr(squares[0], 20),
        "slope_at_zero": mp.nstr(squares[1], 20),
        "slope_at_one": mp.nstr(at_one, 20),
        "values": [mp.nstr(value, 20) for value in values],
        "slopes": [mp.nstr(slope, 20) for slope in slopes],
    }


if __name__ == "__main__":
    TABLE.write_text(json.dumps({name: row(name) for name in ACTIVATIONS}, indent=1) + "\n")
