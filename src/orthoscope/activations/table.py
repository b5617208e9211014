"""The one table of activations by name, and activations as functions of one real number in float64.

Networks (`orthoscope.models`), simulations (`orthoscope.chains`) and theory all read `ACTIVATIONS`: a new activation is
one line of it. `nonlinearity` accepts whatever an activation can be given as, refuses what is not one differentiable
function applied entry by entry, and searches for the kinks of functions that are not in the table.
"""

import copy
import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Pointwise: TypeAlias = Callable[[Tensor], Tensor]


MAX_KINKS = 64  # the cost of an integral over pairs grows with their square

# Kinks are searched for by bisection of every cell of a grid.
_SEARCH_RADIUS = 20.0  # |x| beyond this has Gaussian probability 6e-89
_CELLS = 8000
_SMALLEST_JUMP = 1e-9  # relative to the largest value; a smaller jump moves no integral by more than that
_BISECTIONS = 46  # cells of 5e-3 down to 7e-17


class Entry(NamedTuple):
    """One line of the table.

    Attributes:
        function: The activation as a function of tensors, differentiable, out of place and exact in float64.
        kinks: Points where the function, its slope or its curvature jumps; integrals are split there.
        factory: Returns the module that computes the same function; None for `Elementwise(function)`.
    """

    function: Pointwise
    kinks: tuple[float, ...] = ()
    factory: Callable[[], nn.Module] | None = None


def _cube(inputs: Tensor) -> Tensor:
    return inputs**3


def _gelu_tanh(inputs: Tensor) -> Tensor:
    return F.gelu(inputs, approximate="tanh")


def _hard_sigmoid(inputs: Tensor) -> Tensor:
    # Not F.hardsigmoid, whose slope is 1/6 in float32 whatever the dtype of the input.
    return (inputs / 6 + 0.5).clamp(0.0, 1.0)


def _identity(inputs: Tensor) -> Tensor:
    return inputs.clone()


def _squared_relu(inputs: Tensor) -> Tensor:
    return inputs.relu().square()


def _step(inputs: Tensor) -> Tensor:
    return (inputs > 0).to(inputs.dtype)


ACTIVATIONS: dict[str, Entry] = {
    "abs": Entry(torch.abs, (0.0,)),
    "arctan": Entry(torch.arctan),
    "celu": Entry(F.celu, (0.0,), nn.CELU),
    "cos": Entry(torch.cos),
    "cube": Entry(_cube),
    "elu": Entry(F.elu, (0.0,), nn.ELU),
    "erf": Entry(torch.erf),
    "exp": Entry(torch.exp),
    "gelu": Entry(F.gelu, (), nn.GELU),
    "gelu_tanh": Entry(_gelu_tanh, (), lambda: nn.GELU(approximate="tanh")),
    "hard_sigmoid": Entry(_hard_sigmoid, (-3.0, 3.0), nn.Hardsigmoid),
    "hard_swish": Entry(F.hardswish, (-3.0, 3.0), nn.Hardswish),
    "hardshrink": Entry(F.hardshrink, (-0.5, 0.5), nn.Hardshrink),
    "hardtanh": Entry(F.hardtanh, (-1.0, 1.0), nn.Hardtanh),
    "identity": Entry(_identity, (), nn.Identity),
    "leaky_relu": Entry(F.leaky_relu, (0.0,), nn.LeakyReLU),
    "linear": Entry(_identity, (), nn.Identity),
    "logsigmoid": Entry(F.logsigmoid, (), nn.LogSigmoid),
    "mish": Entry(F.mish, (), nn.Mish),
    "relu": Entry(F.relu, (0.0,), nn.ReLU),
    "relu6": Entry(F.relu6, (0.0, 6.0), nn.ReLU6),
    "selu": Entry(F.selu, (0.0,), nn.SELU),
    "sigmoid": Entry(torch.sigmoid, (), nn.Sigmoid),
    "sign": Entry(torch.sign, (0.0,)),
    "silu": Entry(F.silu, (), nn.SiLU),
    "sin": Entry(torch.sin),
    "sinh": Entry(torch.sinh),
    # torch switches to the identity at 20, where the two differ by 2e-9.
    "softplus": Entry(F.softplus, (20.0,), nn.Softplus),
    "softshrink": Entry(F.softshrink, (-0.5, 0.5), nn.Softshrink),
    "softsign": Entry(F.softsign, (0.0,), nn.Softsign),
    "square": Entry(torch.square),
    "squared_relu": Entry(_squared_relu, (0.0,)),
    "step": Entry(_step, (0.0,)),
    "tanh": Entry(torch.tanh, (), nn.Tanh),
    "tanhshrink": Entry(F.tanhshrink, (), nn.Tanhshrink),
}


def entry_named(name: str) -> Entry:
    """The line of the table with that name; a ValueError suggests the closest name and lists all."""
    if name not in ACTIVATIONS:
        close = difflib.get_close_matches(name.lower(), ACTIVATIONS, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"unknown activation {name!r}{meant}: choose one of {', '.join(ACTIVATIONS)}, or give a callable"
        )
    return ACTIVATIONS[name]


@dataclass(frozen=True)
class Nonlinearity:
    r"""$\phi: \mathbb{R} \to \mathbb{R}$, applied entry by entry in float64.

    Attributes:
        name: The name in error messages.
        function: The function of tensors.
        kinks: Points where the function, its slope or its curvature jumps; integrals are split there.
    """

    name: str
    function: Pointwise
    kinks: tuple[float, ...] = ()

    def __call__(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""$\phi(x)$ in float64."""
        return self.function(inputs.double())

    def derivative(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        r"""$\phi'(x)$ by automatic differentiation, exact off the kinks; a jump of $\phi$ contributes nothing."""
        return slope_of(self.function)(inputs.double())

    def with_input_scale(self, variance: int | float) -> "Nonlinearity":
        r"""$x \mapsto \phi(\sqrt q\,x)$: the action of $\phi$ on inputs of variance $q$, as a function of unit ones."""
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


def nonlinearity(choice: Choice, gain: int | float = 1.0) -> Nonlinearity:
    r"""An activation as a function of one real number.

    Args:
        choice: A name of `ACTIVATIONS`, a module (copied to float64), a module class, or an elementwise function of
            tensors. Kinks of modules and functions are searched for on $[-20, 20]$.
        gain: With a gain $\alpha$ the result is $\phi(\alpha x)/\alpha$.

    Raises:
        ValueError: If the name is unknown, or what is given is not one differentiable function of one number.
    """
    if isinstance(choice, Nonlinearity):
        return choice.with_gain(gain)
    if isinstance(choice, str):
        entry = entry_named(choice)
        return Nonlinearity(choice, entry.function, entry.kinks).with_gain(gain)
    if not callable(choice):
        raise ValueError(f"activation is {choice!r}, but must be a name, a module or a function of tensors")
    made: Pointwise = choice() if isinstance(choice, type) else choice
    if isinstance(made, nn.Hardsigmoid) or made is F.hardsigmoid:
        return nonlinearity("hard_sigmoid", gain)  # torch's own is inexact in float64
    name = repr(made) if isinstance(made, nn.Module) else str(getattr(made, "__name__", repr(made)))
    function: Pointwise = out_of_place(made).double() if isinstance(made, nn.Module) else made
    require_elementwise(name, function)
    _require_slope(name, function)
    kinks = find_kinks(function)
    if len(kinks) > MAX_KINKS:
        raise ValueError(
            f"activation {name} has {len(kinks)} kinks or jumps: integrals are split at {MAX_KINKS} at most"
        )
    return Nonlinearity(name, function, kinks).with_gain(gain)


def out_of_place(module: nn.Module) -> nn.Module:
    """A copy that does not overwrite its inputs."""
    twin = copy.deepcopy(module)
    for part in twin.modules():
        if hasattr(part, "inplace"):
            setattr(part, "inplace", False)  # noqa: B010 - not an attribute that nn.Module declares
    return twin


def require_elementwise(name: str, function: Pointwise) -> None:
    """Raise a ValueError unless values of entries alone, together, repeated and in another order agree."""
    points = torch.linspace(-3.1, 3.3, 12, dtype=torch.float64)
    try:
        with torch.no_grad():
            values = [function(points.clone()) for _ in range(2)]
            alone = [function(point.reshape(1)) for point in points.clone()]
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


def _require_slope(name: str, function: Pointwise) -> None:
    """Raise a ValueError if autograd fails, or disagrees with finite differences because a part is detached."""
    points, step = torch.linspace(-3.1, 3.3, 33, dtype=torch.float64), 1e-6
    try:
        slope = slope_of(function)(points)
    except Exception as failure:
        raise ValueError(f"activation {name} cannot be differentiated by torch: {failure}") from failure
    with torch.no_grad():
        differences = (function(points + step) - function(points - step)) / (2 * step)
    # More than half must agree: a few points may be at kinks.
    agree = (slope - differences).abs() <= 1e-3 * (1 + slope.abs())
    if 2 * int(agree.sum()) < len(points):
        raise ValueError(
            f"activation {name} has another slope than its autograd derivative: is a part detached, or in float32?"
        )


def slope_of(function: Pointwise) -> Pointwise:
    r"""$\phi'$ by automatic differentiation, itself differentiable; 0 where the value does not depend on the input."""

    def slope(points: Tensor) -> Tensor:
        differentiated_again = points.requires_grad
        with torch.enable_grad():
            argument = points if differentiated_again else points.detach().requires_grad_(True)
            # A clone: a function that works in place may not write on a leaf.
            values = function(argument.clone())
            if not values.requires_grad:
                return torch.zeros_like(points)
            (found,) = torch.autograd.grad(
                values.sum(), argument, create_graph=differentiated_again, allow_unused=True, materialize_grads=True
            )
        return found.to(points.dtype)

    return slope


def find_kinks(function: Pointwise) -> tuple[float, ...]:
    """Points of [-20, 20] where the function, its slope or its curvature jumps, to rounding.

    Every cell of a grid is halved toward its larger change: where the function is smooth the change vanishes with the
    width of the cell, at a jump it does not. Two jumps in one cell (0.005 wide) are found as one.
    """
    # The grid is shifted so that round numbers, the usual kinks, are inside the cells.
    grid = torch.linspace(-_SEARCH_RADIUS, _SEARCH_RADIUS, _CELLS + 1, dtype=torch.float64) + 1.23456e-3
    derivatives = (function, slope_of(function), slope_of(slope_of(function)))
    return tuple(sorted({point for derivative in derivatives for point in _jumps(derivative, grid)}))


def _jumps(function: Pointwise, grid: Tensor) -> list[float]:
    at = function(grid.clone()).detach()
    scale = at[at.isfinite()].abs().max()
    left, right, at_left, at_right = grid[:-1], grid[1:], at[:-1], at[1:]
    for _ in range(_BISECTIONS):
        middle = (left + right) / 2
        at_middle = function(middle.clone()).detach()
        go_left = (at_middle - at_left).abs() >= (at_right - at_middle).abs()
        left, right = torch.where(go_left, left, middle), torch.where(go_left, middle, right)
        at_left, at_right = torch.where(go_left, at_left, at_middle), torch.where(go_left, at_middle, at_right)
        jumps = (at_right - at_left).abs() > _SMALLEST_JUMP * scale
        left, right, at_left, at_right = left[jumps], right[jumps], at_left[jumps], at_right[jumps]
    return [_rounded(point) for point in ((left + right) / 2).tolist()]


def _rounded(point: float) -> float:
    """The nearest number of twelve digits if it is equal up to rounding: kinks are usually round numbers."""
    short = round(point, 12) + 0.0
    return short if abs(short - point) <= 1e-15 * max(1.0, abs(point)) else point
