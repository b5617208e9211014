"""Activations as functions of one real number, with the places where they are not smooth."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from orthoscope.theory.kinks import kinks_of, slope_of

MOST_KINKS = 64  # the cost of an integral over pairs grows with their square

Pointwise: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Nonlinearity:
    r"""$\phi: \mathbb{R} \to \mathbb{R}$, applied entry by entry in float64.

    `kinks` are where it, its slope or its curvature jumps: integrals are split there.
    """

    name: str
    function: Pointwise
    kinks: tuple[float, ...] = ()

    def __call__(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.function(inputs.double())

    def derivative(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""$\phi'(x)$ by automatic differentiation, exact off the kinks; a jump of $\phi$ itself counts for nothing."""
        return slope_of(self.function)(inputs.double())

    def with_input_scale(self, variance: int | float) -> "Nonlinearity":
        r"""$x \mapsto \phi(\sqrt q\,x)$: what $\phi$ does to inputs of variance $q$, as a function of standard ones."""
        if not (variance > 0 and math.isfinite(variance)):
            raise ValueError(f"input variance is {variance}, but must be a positive number")
        if variance == 1:
            return self
        return self._stretched(math.sqrt(variance), 1.0, f"{self.name} at variance {variance:g}")

    def with_gain(self, gain: int | float) -> "Nonlinearity":
        r"""$x \mapsto \phi(\alpha x)/\alpha$ for the gain $\alpha$."""
        if gain == 0 or not math.isfinite(gain):
            raise ValueError(f"activation gain is {gain}, but must be a number other than 0 (the limit is 'identity')")
        if gain == 1:
            return self
        return self._stretched(float(gain), float(gain), f"{self.name} at gain {gain:g}")

    def _stretched(self, inner: float, divisor: float, name: str) -> "Nonlinearity":
        def stretched(inputs: Tensor) -> Tensor:
            return self.function(inner * inputs) / divisor

        return Nonlinearity(name, stretched, tuple(sorted(kink / inner for kink in self.kinks)))


Choice: TypeAlias = str | nn.Module | type[nn.Module] | Nonlinearity | Pointwise


def _identity(inputs: Tensor) -> Tensor:
    return inputs.clone()


def _hard_sigmoid(inputs: Tensor) -> Tensor:
    # Not F.hardsigmoid, whose slope is 1/6 in float32 whatever the input.
    return (inputs / 6 + 0.5).clamp(0.0, 1.0)


def _step(inputs: Tensor) -> Tensor:
    return torch.where(inputs > 0, 1.0, 0.0).to(inputs.dtype)


_KNOWN: tuple[tuple[str, Pointwise, tuple[float, ...]], ...] = (
    # The names of orthoscope.models, the same functions.
    ("cube", lambda x: x**3, ()),
    ("elu", F.elu, (0.0,)),
    ("erf", torch.erf, ()),
    ("exp", torch.exp, ()),
    ("gelu", F.gelu, ()),
    ("hardtanh", F.hardtanh, (-1.0, 1.0)),
    ("identity", _identity, ()),
    ("leaky_relu", F.leaky_relu, (0.0,)),
    ("linear", _identity, ()),
    ("mish", F.mish, ()),
    ("relu", F.relu, (0.0,)),
    ("selu", F.selu, (0.0,)),
    ("sigmoid", torch.sigmoid, ()),
    ("sign", torch.sign, (0.0,)),
    ("silu", F.silu, ()),
    ("sin", torch.sin, ()),
    # torch switches to the identity at 20, where the two differ by 2e-9.
    ("softplus", F.softplus, (20.0,)),
    ("softsign", F.softsign, (0.0,)),
    ("tanh", torch.tanh, ()),
    # Further ones.
    ("abs", torch.abs, (0.0,)),
    ("arctan", torch.arctan, ()),
    ("celu", F.celu, (0.0,)),
    ("cos", torch.cos, ()),
    ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), ()),
    ("hard_sigmoid", _hard_sigmoid, (-3.0, 3.0)),
    ("hard_swish", F.hardswish, (-3.0, 3.0)),
    ("hardshrink", F.hardshrink, (-0.5, 0.5)),
    ("logsigmoid", F.logsigmoid, ()),
    ("relu6", F.relu6, (0.0, 6.0)),
    ("sinh", torch.sinh, ()),
    ("softshrink", F.softshrink, (-0.5, 0.5)),
    ("square", torch.square, ()),
    ("squared_relu", lambda x: F.relu(x).square(), (0.0,)),
    ("step", _step, (0.0,)),
    ("tanhshrink", F.tanhshrink, ()),
)

NONLINEARITIES: dict[str, Nonlinearity] = {known[0]: Nonlinearity(*known) for known in _KNOWN}


def nonlinearity(choice: Choice, gain: int | float = 1.0) -> Nonlinearity:
    r"""An activation from its name, a module or an elementwise function of tensors.

    With a `gain` $\alpha$ it is $\phi(\alpha x)/\alpha$. Kinks of a module or a function are searched
    for, on $[-20, 20]$.
    """
    if isinstance(choice, Nonlinearity):
        return choice.with_gain(gain)
    if isinstance(choice, str):
        if choice not in NONLINEARITIES:
            raise ValueError(
                f"unknown activation {choice!r}: choose one of {', '.join(NONLINEARITIES)}, or give a callable"
            )
        return NONLINEARITIES[choice].with_gain(gain)
    if not callable(choice):
        raise ValueError(f"activation is {choice!r}, but must be a name, a module or a function of tensors")
    made: Pointwise = choice() if isinstance(choice, type) else choice
    if isinstance(made, nn.Hardsigmoid) or made is F.hardsigmoid:
        return NONLINEARITIES["hard_sigmoid"].with_gain(gain)
    name = _name_of(made)
    # A copy in float64: the module given is left as it is.
    function: Pointwise = copy.deepcopy(made).double() if isinstance(made, nn.Module) else made
    require_elementwise(name, function)
    _check_slope(name, function)
    kinks = kinks_of(function)
    if len(kinks) > MOST_KINKS:
        raise ValueError(
            f"activation {name} has {len(kinks)} kinks or jumps: integrals are split at {MOST_KINKS} at most"
        )
    return Nonlinearity(name, function, kinks).with_gain(gain)


def _name_of(choice: nn.Module | Pointwise) -> str:
    return repr(choice) if isinstance(choice, nn.Module) else str(getattr(choice, "__name__", repr(choice)))


def require_elementwise(name: str, function: Pointwise) -> None:
    """Refuse what is not one function of one number: entries alone, together and in another order must agree."""
    points = torch.linspace(-3.1, 3.3, 12, dtype=torch.float64)
    try:
        with torch.no_grad():
            values = [function(points.clone()) for _ in range(2)]
            alone = [function(point.reshape(1)) for point in points]
            reordered = function(points.flip(0).reshape(4, 3))
    except Exception as failure:
        raise ValueError(
            f"activation {name} is not elementwise, it fails on a tensor of numbers: {failure}"
        ) from failure
    for output, shape in [(values[0], (12,)), (alone[0], (1,)), (reordered, (4, 3))]:
        if not isinstance(output, Tensor) or output.shape != shape:
            found = tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
            raise ValueError(f"activation {name} turns shape {shape} into {found}: it must be elementwise")
    if values[0].isnan().any():
        raise ValueError(f"activation {name} is not a number (NaN) at {points[values[0].isnan()][0].item():.4g}")
    if not torch.equal(*values):
        raise ValueError(f"activation {name} gives two different values at the same point: it must not be random")
    for other in (torch.cat(alone), reordered.flatten().flip(0)):
        if not torch.allclose(values[0].double(), other.double(), rtol=1e-12, atol=1e-12):
            raise ValueError(f"activation {name} is not elementwise: an entry's value depends on the other entries")


def _check_slope(name: str, function: Pointwise) -> None:
    """Refuse what torch cannot differentiate, or differentiates wrongly because a part of it is hidden from it."""
    points, step = torch.linspace(-3.1, 3.3, 33, dtype=torch.float64), 1e-6
    try:
        slope = slope_of(function)(points)
    except Exception as failure:
        raise ValueError(f"activation {name} cannot be differentiated by torch: {failure}") from failure
    with torch.no_grad():
        differences = (function(points + step) - function(points - step)) / (2 * step)
    # More than half: a few points may be at kinks.
    agree = (slope - differences).abs() <= 1e-3 * (1 + slope.abs())
    if 2 * int(agree.sum()) < len(points):
        raise ValueError(
            f"activation {name} has another slope than torch sees: is a part of it detached, or in float32?"
        )
