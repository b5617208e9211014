"""A random fully connected network and its inputs, as the numbers that theory needs."""

import math
from dataclasses import dataclass

from orthoscope.activations import Nonlinearity
from orthoscope.theory.kernel.kernel_map import ORDERS

NORMS = ("none", "rms", "layer", "batch", "batch-uncentered")
_ROUNDING = 1e-6  # by which a measured mean cosine may miss its lowest value


class NoTheory(ValueError):  # noqa: N818 - a reason, not an error
    """Raised where nothing can be predicted; its message is the reason given in the report."""


class LostSignal(NoTheory):
    """Raised where signals underflow or overflow.

    Args:
        reason: The message.
        layers: Number of layers before, whose predictions are valid.
    """

    def __init__(self, reason: str, layers: int = 0) -> None:
        super().__init__(reason)
        self.layers = layers


def require_signal(mean_square: float) -> None:
    """Raise `LostSignal` for a mean square that is 0 or not finite, where angles are undefined."""
    if not 0 < mean_square < math.inf:
        raise LostSignal("signals vanish" if mean_square == 0 else "signals overflow")


@dataclass(frozen=True)
class Inputs:
    """A batch of exchangeable samples, by the statistics that theory uses.

    Attributes:
        samples: Number of samples.
        mean_square: Of an entry.
        overlap: Mean cosine of two samples.
        overlap_variance: Variance of these cosines.
        difference_variance: Variance of the cosine between $x_1 - x_2$ and $x_3 - x_4$.
    """

    samples: int
    mean_square: float = 1.0
    overlap: float = 0.0
    overlap_variance: float = 0.0
    difference_variance: float = 0.0

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"a batch of {self.samples} has no pair of samples to compare: give at least 2")
        lowest = -1 / (self.samples - 1)
        if not lowest - _ROUNDING <= self.overlap <= 1:
            raise ValueError(
                f"the mean cosine of {self.samples} samples is between {lowest:.3g} and 1, got {self.overlap:g}"
            )
        if not self.mean_square > 0:
            raise ValueError(f"the mean square of the inputs is {self.mean_square:g}, but must be positive")


def gaussian_inputs(samples: int, features: int, overlap: float = 0.0) -> Inputs:
    r"""Gaussian samples of that mean overlap: cosines have variance $(1-\rho^2)^2/d$, those of differences $1/d$.

    Args:
        samples: Number of samples $n$.
        features: Entries $d$ of a sample.
        overlap: Cosine $\rho$ of two samples, or its mean over pairs.
    """
    if features < 1:
        raise ValueError(f"samples have {features} features: give at least 1")
    return Inputs(samples, 1.0, overlap, (1 - overlap**2) ** 2 / features, 1 / features)


@dataclass(frozen=True)
class LinearLaw:
    r"""A random linear layer: $\sigma_w^2$ is fan-in times the variance of an entry, $\sigma_b^2$ that of a bias.

    Attributes:
        units: Number of outputs.
        weight_variance: $\sigma_w^2$.
        bias_variance: $\sigma_b^2$.
    """

    units: int
    weight_variance: float = 1.0
    bias_variance: float = 0.0

    def __post_init__(self) -> None:
        if self.units < 1:
            raise ValueError(f"width is {self.units}, but must be at least 1")
        for name, value in (("weight", self.weight_variance), ("bias", self.bias_variance)):
            if not 0 <= value < math.inf:
                raise ValueError(f"the {name} variance is {value:g}, but must be a number of at least 0")


@dataclass(frozen=True)
class Hyperparameters:
    r"""Hidden layers of linear, norm and activation, all of one width, perhaps with skip connections.

    Attributes:
        activation: $\phi$.
        hidden: Linear part of a hidden layer.
        first: Linear part of the first layer; None if it is like the hidden ones.
        last: The head; None if there is none.
        norm: "none", "rms", "layer", "batch" or "batch-uncentered".
        order: "norm-activation" or "activation-norm".
        epsilon: Added to the variance in the norm.
        residual_scale: Factor of the residual branches; None without skip connections.
        first_skips: Whether the first layer has a skip connection too.
        rotation: Whether weights are orthogonal.
        first_rotates: Whether those of the first layer keep angles too, which they do not with more inputs than units.
    """

    activation: Nonlinearity
    hidden: LinearLaw
    first: LinearLaw | None = None
    last: LinearLaw | None = None
    norm: str = "none"
    order: str = "norm-activation"
    epsilon: float = 0.0
    residual_scale: float | None = None
    first_skips: bool = True
    rotation: bool = False
    first_rotates: bool = True

    def __post_init__(self) -> None:
        if self.norm not in NORMS:
            raise ValueError(f"unknown normalization {self.norm!r}: choose one of {', '.join(NORMS)}")
        if self.order not in ORDERS:
            raise ValueError(f"unknown order {self.order!r}: choose one of {', '.join(ORDERS)}")

    def linear(self, index: int) -> LinearLaw:
        """The linear part of the layer of that index."""
        return self.first if index == 0 and self.first is not None else self.hidden

    def rotates(self, index: int) -> bool:
        """Whether the linear part of the layer of that index keeps lengths and angles."""
        return self.rotation and (index > 0 or self.first_rotates)

    def skip(self, index: int) -> float | None:
        """The scale of the branch of that layer, None without a skip connection."""
        return None if index == 0 and not self.first_skips else self.residual_scale
