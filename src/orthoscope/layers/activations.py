"""Activations by name, from a module, from what makes one, or from a function of tensors."""

import copy
import difflib
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor, nn

Pointwise: TypeAlias = Callable[[Tensor], Tensor]
Activation: TypeAlias = str | nn.Module | type[nn.Module] | Callable[[], nn.Module] | Pointwise


class Elementwise(nn.Module):
    """A function of one number, applied to every entry."""

    def __init__(self, function: Pointwise) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.function(inputs)

    def extra_repr(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))


def _cube(inputs: Tensor) -> Tensor:
    return inputs**3


def _squared_relu(inputs: Tensor) -> Tensor:
    return inputs.relu().square()


def _step(inputs: Tensor) -> Tensor:
    return (inputs > 0).to(inputs.dtype)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "abs": lambda: Elementwise(torch.abs),
    "arctan": lambda: Elementwise(torch.arctan),
    "celu": nn.CELU,
    "cos": lambda: Elementwise(torch.cos),
    "cube": lambda: Elementwise(_cube),
    "elu": nn.ELU,
    "erf": lambda: Elementwise(torch.erf),
    "exp": lambda: Elementwise(torch.exp),
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "hard_sigmoid": nn.Hardsigmoid,
    "hard_swish": nn.Hardswish,
    "hardshrink": nn.Hardshrink,
    "hardtanh": nn.Hardtanh,
    "identity": nn.Identity,
    "leaky_relu": nn.LeakyReLU,
    "linear": nn.Identity,
    "logsigmoid": nn.LogSigmoid,
    "mish": nn.Mish,
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "selu": nn.SELU,
    "sigmoid": nn.Sigmoid,
    "sign": lambda: Elementwise(torch.sign),
    "silu": nn.SiLU,
    "sin": lambda: Elementwise(torch.sin),
    "sinh": lambda: Elementwise(torch.sinh),
    "softplus": nn.Softplus,
    "softshrink": nn.Softshrink,
    "softsign": nn.Softsign,
    "square": lambda: Elementwise(torch.square),
    "squared_relu": lambda: Elementwise(_squared_relu),
    "step": lambda: Elementwise(_step),
    "tanh": nn.Tanh,
    "tanhshrink": nn.Tanhshrink,
}


def unshaped(choice: Activation) -> nn.Module:
    """A new module from a name, a module, something that makes one, or a function of tensors."""
    return _named(choice) if isinstance(choice, str) else _made(choice)


def _named(name: str) -> nn.Module:
    if name not in ACTIVATIONS:
        close = difflib.get_close_matches(name.lower(), ACTIVATIONS, n=1)
        meant = f" (did you mean {close[0]}?)" if close else ""
        raise ValueError(
            f"unknown activation {name!r}{meant}: choose one of {', '.join(ACTIVATIONS)}, or give a callable"
        )
    return ACTIVATIONS[name]()


def _made(choice: nn.Module | Callable[..., Any]) -> nn.Module:
    if isinstance(choice, nn.Module):
        # One module a layer: parameters and hooks must not be shared by accident.
        return copy.deepcopy(choice)
    if not callable(choice):
        raise ValueError(f"activation is {choice!r}, but must be a name, a module or a callable")
    if _needs_an_argument(choice):
        return Elementwise(choice)
    module = choice()
    if not isinstance(module, nn.Module):
        raise ValueError(f"activation {choice!r} made a {type(module).__name__}, but must make an nn.Module")
    return module


def _needs_an_argument(function: Callable[..., object]) -> bool:
    """True for a function of tensors, False for a factory; a built-in does not tell, and is the former."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return True
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)
