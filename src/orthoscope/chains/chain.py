r"""What a random network does, layer by layer: weights, normalisation, activation, gain."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from orthoscope.chains.normalisations import Hidden, Normalisation, normalisation
from orthoscope.theory.activations import NONLINEARITIES, Pointwise
from orthoscope.theory.kinks import slope_of

# (how many layers, outputs, inputs, generator) -> that many weights (layers, outputs, inputs)
Draw: TypeAlias = Callable[[int, int, int, torch.Generator], Tensor]

INITS = ("gaussian", "orthogonal", "uniform")


@dataclass(frozen=True)
class Chain:
    r"""The recursion $h_\ell = \phi(\alpha_\ell N(W_\ell h_{\ell-1}))$, or $N(\phi(\alpha_\ell W_\ell h_{\ell-1}))$.

    `init` is the law of the weights, independent in every layer:
      "gaussian"    $W_{ij} \sim \mathcal N(0, 1/\text{fan\_in})$,
      "orthogonal"  Haar, columns orthonormal if $W$ is tall, rows if it is wide,
      "uniform"     $W_{ij}$ uniform on $\pm\sqrt{3/\text{fan\_in}}$: the variance of "gaussian",
      or a function `draw(layers, outputs, inputs, generator)` that returns weights `(layers, outputs, inputs)`
      of that many consecutive layers of one network.
    `activation` is a name of `theory.activations` (those of `orthoscope.models` are among them) or an elementwise
    function, also one that works in place; `norm` is "none", "rms", "layer", "batch" or "batch_uncentred", without ε
    and scaled as in `orthoscope.models`: mean square 1. `norm_first=False` normalises after the activation. `gain`
    $\alpha$ multiplies what enters the activation, and may be a function of the layer, 1 for the first.
    """

    width: int
    init: str | Draw = "gaussian"
    activation: str | Pointwise = "identity"
    norm: str = "none"
    norm_first: bool = True
    gain: int | float | Callable[[int], int | float] = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.width, int):
            raise TypeError(f"width is {self.width!r}: give a whole number")
        if self.width < 1:
            raise ValueError(f"width is {self.width}: give at least 1")
        for name in ("init", "activation"):
            given = getattr(self, name)
            if not isinstance(given, str) and not callable(given):
                raise TypeError(f"{name} is {given!r}: give a name or a function")
            if isinstance(given, type):
                raise TypeError(f"{name} is the class {given.__name__}: give an instance of it, {given.__name__}()")
        if not isinstance(self.norm, str):
            raise TypeError(f"norm is {self.norm!r}: give a name, 'none' for no normalisation")
        if isinstance(self.init, str) and self.init not in INITS:
            raise ValueError(f"unknown init {self.init!r}: choose one of {', '.join(INITS)}, or give a function")
        if isinstance(self.activation, str) and self.activation not in NONLINEARITIES:
            names = ", ".join(NONLINEARITIES)
            raise ValueError(f"unknown activation {self.activation!r}: choose one of {names}, or give a function")
        normalisation(self.norm)
        if not callable(self.gain):
            _check_gain(self.gain)

    @cached_property
    def normalisation(self) -> Normalisation | None:
        return normalisation(self.norm)

    @cached_property
    def function(self) -> Pointwise | None:
        """The activation, None for the identity."""
        if isinstance(self.activation, str):
            return None if self.activation in ("identity", "linear") else NONLINEARITIES[self.activation].function
        return self.activation

    def gain_of(self, layer: int) -> float:
        if not callable(self.gain):
            return float(self.gain)
        gain = self.gain(layer)
        _check_gain(gain)
        return float(gain)

    def activated(self, inputs: Hidden, layer: int, *, keep: bool = False) -> Hidden:
        r"""$\phi(\alpha_\ell x)$. A function of the caller may overwrite the inputs, unless asked to `keep` them."""
        gain = self.gain_of(layer)
        scaled = inputs if gain == 1 else gain * inputs
        if self.function is None:
            return scaled
        if isinstance(self.activation, str):
            return self.function(scaled)
        result: object = self.function(inputs.clone() if keep and scaled is inputs else scaled)
        if not isinstance(result, Tensor) or result.shape != inputs.shape:
            found = f"shape {tuple(result.shape)}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise ValueError(
                f"activation returned {found} for a tensor of shape {tuple(inputs.shape)}: "
                "it must work on every entry by itself"
            )
        return result

    def is_identity(self, layer: int) -> bool:
        r"""Whether $\phi(\alpha_\ell x) = x$."""
        return self.function is None and self.gain_of(layer) == 1

    def slopes(self, inputs: Hidden, layer: int) -> Hidden:
        r"""$\alpha_\ell\phi'(\alpha_\ell x)$."""
        gain = self.gain_of(layer)
        return torch.full_like(inputs, gain) if self.function is None else gain * slope_of(self.function)(gain * inputs)

    def output_(self, preactivations: Hidden, layer: int, scratch: Hidden | None = None) -> Hidden:
        r"""$h_\ell$ in place of $W_\ell h_{\ell-1}$; `scratch` is memory of its shape, to compute in."""
        norm = self.normalisation
        if norm is None:
            result = self.activated(preactivations, layer)
        elif self.norm_first:
            result = self.activated(norm(preactivations, preactivations, scratch)[0], layer)
        else:
            result = norm(self.activated(preactivations, layer), preactivations, scratch)[0]
        return result if result is preactivations else preactivations.copy_(result)


def _check_gain(gain: object) -> None:
    try:
        finite = math.isfinite(gain)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # the last two: of an array, of a tensor
        raise TypeError(f"gain is {gain!r}: give a number other than 0, or a function of the layer") from None
    if gain == 0 or not finite:
        raise ValueError(f"gain is {gain}: give a number other than 0")
