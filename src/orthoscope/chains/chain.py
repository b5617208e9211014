r"""One layer of a random network: normalization, activation and gain, forward and backward, for a stack of networks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import ACTIVATIONS, Pointwise
from orthoscope.activations.table import entry_named, slope_of

Batches = Float[Tensor, "seeds samples units"]
Gradients = Float[Tensor, "seeds losses samples units"]
# From the gradient with respect to the output of a layer to that with respect to its preactivations.
PullBack: TypeAlias = Callable[[Gradients], Gradients]
# (number of layers, outputs, inputs, generator) -> weights (layers, outputs, inputs)
Draw: TypeAlias = Callable[[int, int, int, torch.Generator], Tensor]

INITS = ("gaussian", "orthogonal")
_EPS = torch.finfo(torch.float64).eps
# Rounding error of a mean relative to the largest mean of the batch. Measured on identical samples: at most 10 eps for
# batches of 3 to 3000 samples, widths 16 to 512 and up to 1000 inputs.
_ROUNDING = 32 * _EPS


@dataclass(frozen=True)
class Normalization:
    r"""Division by the root mean square along an axis, after subtraction of the mean along it if `centered`.

    $$ y = r\,(x - m), \qquad r = 1\big/\sqrt{\operatorname{mean}\,(x - m)^2}, \qquad
       m = \operatorname{mean}\,x \text{ if centered, else } 0 $$

    As `orthoscope.models`, but without $\varepsilon$. Entries that are 0 all along the axis (a unit that is dead on the
    whole batch) stay 0: there $r = 0$. So do entries that are constant along it, if centered: their $x - m$ is
    rounding error.
    """

    axis: int  # -2: over the batch, for each unit; -1: over the units, for each sample
    centered: bool

    def __call__(self, inputs: Float[Tensor, "*batch samples units"]) -> tuple[Tensor, Tensor]:
        """Return the normalized batches and the factors $r$."""
        mean = inputs.mean(self.axis, keepdim=True) if self.centered else None
        deviations = inputs if mean is None else inputs - mean
        power = deviations.square().mean(self.axis, keepdim=True)
        if mean is not None:
            power.masked_fill_(power <= self._rounding(mean), 0.0)
        factors = power.rsqrt_().nan_to_num_(nan=torch.nan, posinf=0.0)
        return deviations * factors, factors

    def _rounding(self, mean: Tensor) -> Tensor:
        r"""Mean squares that may be rounding error: $\min(\varepsilon m^2, (32\varepsilon)^2\max m^2)$.

        The maximum is over the batch. Neither bound suffices alone: where the terms of a product cancel, rounding error
        is large relative to the mean of that unit; and units of very different scale are all small relative to the
        largest.
        """
        squares = mean.square()
        largest = squares.amax(-1 if self.axis == -2 else -2, keepdim=True)
        return torch.minimum(squares.mul_(_EPS), largest.mul_(_ROUNDING**2))

    def pull_back(
        self,
        gradient: Gradients,
        outputs: Float[Tensor, "seeds 1 samples units"],
        factors: Tensor,
    ) -> Gradients:
        r"""Gradient for $x$ from $g$ for $y$: $r\,(g - y\,\overline{gy} - \bar g)$, $\bar g$ if centered."""
        shared = (gradient * outputs).mean(self.axis, keepdim=True)
        tangent = torch.addcmul(gradient, outputs, shared, value=-1)
        if self.centered:
            tangent -= gradient.mean(self.axis, keepdim=True)
        return tangent.mul_(factors)


NORMS: dict[str, Normalization | None] = {
    "none": None,
    "rms": Normalization(-1, centered=False),
    "layer": Normalization(-1, centered=True),
    "batch": Normalization(-2, centered=True),
    "batch_uncentered": Normalization(-2, centered=False),
}


def normalization(name: str) -> Normalization | None:
    """Return the normalization of that name, None for "none"; hyphens, as in `orthoscope.models`, are accepted."""
    found = name.replace("-", "_")
    if found not in NORMS:
        raise ValueError(f"unknown norm {name!r}: choose one of {', '.join(NORMS)}")
    return NORMS[found]


@dataclass(frozen=True)
class Chain:
    r"""The recursion $h_\ell = \phi(\alpha_\ell N(W_\ell h_{\ell-1}))$, or $N(\phi(\alpha_\ell W_\ell h_{\ell-1}))$.

    Args:
        width: Units of every layer.
        init: Distribution of the weights, which are independent in every layer:
            "gaussian", $W_{ij} \sim \mathcal N(0, 1/\text{fan\_in})$;
            "orthogonal", Haar, with orthonormal columns if $W$ is tall and orthonormal rows if it is wide;
            or a function `draw(layers, outputs, inputs, generator)` that returns the weights
            `(layers, outputs, inputs)` of consecutive layers of one network.
        activation: A name of `activations.ACTIVATIONS` or an elementwise function, which may work in place.
        norm: "none", "rms", "layer", "batch" or "batch_uncentered": to mean square 1, without $\varepsilon$.
        norm_first: False normalizes after the activation.
        gain: $\alpha$, which multiplies the input of the activation: a number, or a function of the layer (1 for the
            first).
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
            raise TypeError(f"norm is {self.norm!r}: give a name, 'none' for no normalization")
        if isinstance(self.init, str) and self.init not in INITS:
            raise ValueError(f"unknown init {self.init!r}: choose one of {', '.join(INITS)}, or give a function")
        if isinstance(self.activation, str):
            entry_named(self.activation)
        normalization(self.norm)
        if not callable(self.gain):
            _check_gain(self.gain)

    @cached_property
    def normalization(self) -> Normalization | None:
        """What `norm` names."""
        return normalization(self.norm)

    @cached_property
    def function(self) -> Pointwise | None:
        """The activation, None for the identity."""
        if isinstance(self.activation, str):
            return None if self.activation in ("identity", "linear") else ACTIVATIONS[self.activation].function
        return self.activation

    def gain_of(self, layer: int) -> float:
        r"""$\alpha_\ell$."""
        if not callable(self.gain):
            return float(self.gain)
        gain = self.gain(layer)
        _check_gain(gain)
        return float(gain)

    def layer(self, inputs: Batches, layer: int) -> tuple[Batches, PullBack]:
        r"""Return $h_\ell$ from $x = W_\ell h_{\ell-1}$, and the pull-back of gradients from $h_\ell$ to $x$."""
        norm = self.normalization
        if norm is None:
            return self._activated(inputs, layer), lambda gradient: self._times_slope(gradient, inputs, layer)
        if self.norm_first:
            normed, factors = norm(inputs)
            return self._activated(normed, layer), lambda gradient: norm.pull_back(
                self._times_slope(gradient, normed, layer), normed.unsqueeze(1), factors.unsqueeze(1)
            )
        normed, factors = norm(self._activated(inputs, layer))
        return normed, lambda gradient: self._times_slope(
            norm.pull_back(gradient, normed.unsqueeze(1), factors.unsqueeze(1)), inputs, layer
        )

    def _activated(self, inputs: Batches, layer: int) -> Batches:
        r"""$\phi(\alpha_\ell x)$; `inputs` are never overwritten."""
        gain = self.gain_of(layer)
        scaled = inputs if gain == 1 else gain * inputs
        if self.function is None:
            return scaled
        if isinstance(self.activation, str):
            return self.function(scaled)
        # A function of the caller may work in place.
        result: object = self.function(inputs.clone() if scaled is inputs else scaled)
        if not isinstance(result, Tensor) or result.shape != inputs.shape:
            found = f"shape {tuple(result.shape)}" if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise ValueError(
                f"activation returned {found} for a tensor of shape {tuple(inputs.shape)}: it must be elementwise"
            )
        return result

    def _times_slope(self, gradient: Gradients, inputs: Batches, layer: int) -> Gradients:
        r"""$g\,\alpha_\ell\phi'(\alpha_\ell x)$."""
        gain = self.gain_of(layer)
        scaled = gradient if gain == 1 else gain * gradient
        if self.function is None:
            return scaled
        return scaled * slope_of(self.function)(inputs if gain == 1 else gain * inputs).unsqueeze(1)


def _check_gain(gain: object) -> None:
    try:
        finite = math.isfinite(gain)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):  # the last two: of an array, of a tensor
        raise TypeError(f"gain is {gain!r}: give a number other than 0, or a function of the layer") from None
    if gain == 0 or not finite:
        raise ValueError(f"gain is {gain}: give a finite number other than 0")
