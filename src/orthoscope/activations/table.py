"""The one table of activations by name, and a new module from a name, a module, a factory or a function of tensors.

Networks (`orthoscope.models`), simulations (`orthoscope.chains`) and theory all read `ACTIVATIONS`: a new activation is
one line of it.
"""

import copy
import difflib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

Pointwise: TypeAlias = Callable[[Tensor], Tensor]
Activation: TypeAlias = str | nn.Module | type[nn.Module] | Callable[[], nn.Module] | Pointwise


class Elementwise(nn.Module):
    """A function of one number, applied to every entry of a tensor.

    Args:
        function: A function of tensors that acts entry by entry.
    """

    def __init__(self, function: Pointwise) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the function to every entry."""
        return self.function(inputs)

    def extra_repr(self) -> str:
        """The name of the function."""
        return getattr(self.function, "__name__", repr(self.function))


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

    def module(self) -> nn.Module:
        """A new module that computes this activation."""
        return Elementwise(self.function) if self.factory is None else self.factory()


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


def activation_module(choice: Activation) -> nn.Module:
    """A new module for the activation of one layer.

    Args:
        choice: A name of `ACTIVATIONS`, a module (copied: layers must not share parameters or hooks), a class or
            factory that is called without arguments, or an elementwise function of tensors.

    Raises:
        ValueError: If the name is unknown, or the factory returns something else than an `nn.Module`.
    """
    if isinstance(choice, str):
        return entry_named(choice).module()
    if isinstance(choice, nn.Module):
        return copy.deepcopy(choice)
    if not callable(choice):
        raise ValueError(f"activation is {choice!r}, but must be a name, a module or a callable")
    given: Callable[..., Any] = choice
    if _needs_an_argument(given):
        return Elementwise(given)
    module = given()
    if not isinstance(module, nn.Module):
        raise ValueError(f"activation {choice!r} made a {type(module).__name__}, but must make an nn.Module")
    return module


def _needs_an_argument(function: Callable[..., object]) -> bool:
    """True for a function of tensors, False for a factory; built-ins without a signature count as functions."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return True
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
