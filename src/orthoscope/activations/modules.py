r"""Activations as modules, also closer to the identity: shaped by a gain, centered at 0, or blended with the identity.

$$ \text{shaped: } \frac{\phi(\alpha x)}{\alpha} \qquad \text{centered: } \frac{\phi(x) - \phi(0)}{\phi'(0)} \qquad
   \text{blended: } (1 - t)\,x + t\,\phi(x) $$

A gain suits activations that are smooth at 0, which it makes linear; blending suits those with a kink at 0, which look
the same at every scale. `toward_identity` chooses between them. Gains and shares are attributes, as the slope of
`nn.LeakyReLU` is, and not in the `state_dict`: a checkpoint of the plain network still loads.
"""

import copy
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from orthoscope.activations.table import Pointwise, entry_named, out_of_place, require_elementwise, slope_of

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


def activation_module(choice: Activation) -> nn.Module:
    """A new module for the activation of one layer.

    Args:
        choice: A name of `ACTIVATIONS`, a module (copied: layers must not share parameters or hooks), a class or
            factory that is called without arguments, or an elementwise function of tensors.

    Raises:
        ValueError: If the name is unknown, or the factory returns something else than an `nn.Module`.
    """
    if isinstance(choice, str):
        entry = entry_named(choice)
        return Elementwise(entry.function) if entry.factory is None else entry.factory()
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


@final
class ShapedActivation(nn.Module):
    r"""$x \mapsto \phi(\alpha x)/\alpha$ for the gain $\alpha$: closer to the identity if $\phi(x) \approx x$ near 0.

    Equation (6.11) of Joudaki (2024) has no divisor: before a batch norm it changes nothing, elsewhere it keeps the
    slope at 0.

    Args:
        activation: As for `activation_module`; a module is copied.
        gain: A finite number other than 0.
    """

    def __init__(self, activation: Activation, gain: int | float) -> None:
        super().__init__()
        if gain == 0 or not math.isfinite(gain):
            raise ValueError(
                f"an activation gain is a number other than 0, got {gain!r}: the limit at 0 is activation='identity'"
            )
        self.activation = activation_module(activation)
        self.gain = float(gain)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the shaped activation to every entry."""
        shaped: Tensor = self.activation(self.gain * inputs)
        return shaped / self.gain

    def extra_repr(self) -> str:
        """The gain."""
        return f"gain={self.gain:g}"


def activation(choice: Activation, gain: int | float = 1.0) -> nn.Module:
    r"""A new module for the activation of one layer (see `activation_module`), shaped unless the gain is 1.

    Args:
        choice: As for `activation_module`.
        gain: $\alpha$ of `ShapedActivation`.
    """
    return activation_module(choice) if gain == 1 else ShapedActivation(choice, gain)


@final
class CenteredActivation(nn.Module):
    r"""$x \mapsto (\phi(x) - \phi(0))/\phi'(0)$: through 0 with slope 1; a sigmoid becomes $2\tanh(x/2)$.

    Inside a `ShapedActivation` it is $(\phi(\alpha x) - \phi(0))/(\alpha\phi'(0))$, which tends to the identity as
    $\alpha \to 0$.

    Args:
        activation: An elementwise module whose slope at 0 is not 0.
    """

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation
        self.value, self.slope = value_and_slope_at_zero(activation)
        if self.slope == 0:
            raise ValueError(f"activation {activation!r} has slope 0 at 0 and cannot be made the identity there")

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the centered activation to every entry."""
        output: Tensor = self.activation(inputs)
        return (output - self.value) / self.slope

    def extra_repr(self) -> str:
        """Value and slope of the activation at 0."""
        return f"value={self.value:g}, slope={self.slope:g}"


@final
class BlendedActivation(nn.Module):
    r"""$x \mapsto (1 - t)\,x + t\,\phi(x)$ for the share $t \in [0, 1]$: of a ReLU, the leaky ReLU of slope $1 - t$.

    Args:
        activation: An elementwise module.
        share: $t$, from 0 (the identity) to 1 (the activation).
    """

    def __init__(self, activation: nn.Module, share: float) -> None:
        super().__init__()
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(f"the share of an activation is a number from 0 to 1, got {share!r}")
        self.activation = activation
        self.share = float(share)

    def forward(self, inputs: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Apply the blend of identity and activation to every entry."""
        # The identity part first: an in-place activation would overwrite the inputs.
        rest = (1 - self.share) * inputs
        output: Tensor = self.activation(inputs)
        return rest + self.share * output

    def extra_repr(self) -> str:
        """The share of the activation."""
        return f"share={self.share:g}"


def toward_identity(activation: nn.Module, strength: float) -> nn.Module:
    r"""The activation blended toward the identity: 0 is the identity, 1 the activation up to shift and scale.

    * with a kink or slope 0 at 0: $(1-t)x + t\phi(x)$, of a ReLU the leaky one;
    * else: $(\phi(tx) - \phi(0))/(t\,\phi'(0))$.

    Args:
        activation: An elementwise module; it is copied.
        strength: $t$, above 0 and at most 1.
    """
    if not 0 < strength <= 1:
        raise ValueError(f"the strength of an activation is above 0 and at most 1, got {strength!r}")
    if isinstance(activation, nn.ReLU | nn.LeakyReLU):
        below = getattr(activation, "negative_slope", 0.0)
        return nn.LeakyReLU(1 - strength * (1 - below), inplace=activation.inplace)
    twin = out_of_place(activation)
    left, right = slope_of(twin)(torch.tensor([-1e-7, 1e-7], dtype=torch.float64)).tolist()
    if not (abs(left - right) <= 1e-3 * max(abs(left), abs(right)) and abs(left) >= 1e-3):  # nan too
        return BlendedActivation(twin, strength)
    value, slope = value_and_slope_at_zero(twin)
    return ShapedActivation(twin if (value, slope) == (0.0, 1.0) else CenteredActivation(twin), strength)


def value_and_slope_at_zero(activation: nn.Module) -> tuple[float, float]:
    r"""$\phi(0)$ and $\phi'(0)$ of a copy, by automatic differentiation in float64.

    Args:
        activation: An elementwise module; it is not changed.
    """
    twin = copy.deepcopy(activation)
    origin = torch.zeros(1, dtype=torch.float64)
    with torch.no_grad():
        value = twin(origin.clone())  # a clone: it may work in place
    return float(value), float(slope_of(twin)(origin))


# Modules that hold another activation.
_WRAPPERS = (ShapedActivation, CenteredActivation, BlendedActivation)


def activation_modules(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Activations with their names, in order of definition; a wrapped one counts once. No module is run.

    A module that is in several places is yielded under each name.

    Args:
        model: Searched, not changed.
    """
    known: dict[str, bool] = {}
    wrapper = None
    for name, module in named_modules(model).items():
        is_wrapper = isinstance(module, _WRAPPERS)
        if not name or (wrapper and name.startswith(wrapper)) or (list(module.children()) and not is_wrapper):
            continue
        wrapper = f"{name}." if is_wrapper else wrapper  # what it wraps comes next
        # Tested once per printed form: a deep network has few kinds of activations.
        text = f"{type(module).__module__}.{type(module).__qualname__} {module!r}"
        if text not in known:
            known[text] = is_activation(module)
        if known[text]:
            yield name, module


def is_activation(module: nn.Module) -> bool:
    """True if the module has no state and computes one nonlinear function of each entry."""
    if next(module.parameters(), None) is not None or next(module.buffers(), None) is not None:
        return False
    if "drop" in type(module).__name__.lower():
        return False
    # A copy, and `forward` instead of a call: counters and hooks of the user's module are not touched.
    function = copy.deepcopy(module).eval().forward
    try:
        require_elementwise(type(module).__name__, function)
    except ValueError:
        return False
    with torch.no_grad():
        values = function(torch.linspace(-3.1, 3.3, 12, dtype=torch.float64))
    return bool((values[2:] - 2 * values[1:-1] + values[:-2]).abs().max() >= 1e-9)


def named_modules(model: nn.Module) -> dict[str, nn.Module]:
    """Modules by name, one under several names several times: it may get several gains."""
    return dict(model.named_modules(remove_duplicate=False))
