r"""The explosion rate of gradients as a function of the activation's gain, and gains by layer that bound the total.

With one gain $\alpha$ in all layers, the log-gradient grows by $R(\alpha) \approx R_0 + c_1\alpha^{c_2}$ per layer
toward the input; $R_0$ is the rate of the linear network, 0 for orthogonal weights with batch norm. With gains
$\alpha_\ell = \ell^{-k}$ the activations contribute $\sum_\ell c_1 \ell^{-k c_2}$, bounded at any depth if $k c_2 > 1$
(Joudaki, 2024, section C.5). `orthoscope.prescriptions` measures, simulates or predicts the rates of a network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special
import torch
from jaxtyping import Float
from torch import Tensor

# Where the law is fitted: below, rates are lost in the noise of finite width; above 1 activations bend more.
GAINS = (0.3, 0.4, 0.5, 0.65, 0.8, 1.0)
_MIN_GAINS = 3  # two parameters and the error of one


@dataclass(frozen=True)
class GainLaw:
    r"""$R(\alpha) = R_0 + c_1\alpha^{c_2}$: growth of the log-gradient per layer toward the input, at gain $\alpha$.

    Attributes:
        linear_rate: $R_0$, the rate of the linear network.
        scale: $c_1$.
        power: $c_2$.
        power_error: Standard error of $c_2$.
        freedom: Degrees of freedom of that error.
    """

    linear_rate: float
    scale: float
    power: float
    power_error: float
    freedom: int

    def rate(self, gain: float) -> float:
        r"""$R_0 + c_1\alpha^{c_2}$."""
        return self.linear_rate + self.scale * gain**self.power

    def growth(self, gains: Sequence[float]) -> float:
        r"""$\sum_\ell R(\alpha_\ell)$: growth of the log-gradient from the last layer to the first."""
        return sum(self.rate(gain) for gain in gains)

    @property
    def power_interval(self) -> tuple[float, float]:
        """95 % confidence interval of the power, by Student's t."""
        margin = float(scipy.special.stdtrit(self.freedom, 0.975)) * self.power_error
        return self.power - margin, self.power + margin

    def exponent(self, margin: int | float = 0.2) -> float:
        r"""The exponent $k$ of `gain_schedule`: $(1 + \text{margin})/c$, with $c$ the lower end of `power_interval`.

        Raises:
            ValueError: If the margin is not positive, or the interval of the power reaches 0.
        """
        lowest = self.power_interval[0]
        if margin <= 0:
            raise ValueError(f"margin is {margin}, but the sum is bounded only with a positive one")
        if lowest <= 0:
            raise ValueError(
                f"the explosion rate does not fall as a power of the gain (power {self.power:.2g} ± "
                f"{self.power - lowest:.2g}): no schedule of gains bounds it"
            )
        return (1 + margin) / lowest


def fit_gain_law(
    gains: Sequence[float], rates: Float[Tensor, "seeds gains"] | Float[Tensor, " gains"], linear_rate: float = 0.0
) -> GainLaw:
    r"""$c_1$ and $c_2$ by least squares of $\log(R - R_0)$ over $\log\alpha$, with the error of $c_2$.

    Args:
        gains: Positive gains, at least three of which have a rate above $R_0$; the others are left out.
        rates: Growth of the log-gradient per layer at each gain; several networks (rows) are averaged before the fit.
        linear_rate: $R_0$.

    Returns:
        The law. The error of $c_2$ is the larger of two: from the scatter around the line, which exists without noise
        because the law is not an exact power, and from the spread of the fits of single networks.

    Raises:
        ValueError: If fewer than three gains have a rate above $R_0$.
    """
    table = torch.atleast_2d(rates).double().cpu() - linear_rate
    if table.shape[1] != len(gains) or min(gains, default=0) <= 0:
        raise ValueError(f"{len(gains)} positive gains need as many rates, got {table.shape[1]} at gains {list(gains)}")
    kept = (table.mean(0) > 0) & table.isfinite().all(0)
    if int(kept.sum()) < _MIN_GAINS:
        raise ValueError(
            f"gradients explode faster than in the linear network at {int(kept.sum())} of {len(gains)} gains: "
            f"a power law needs {_MIN_GAINS}, and without exploding gradients there is nothing to shape"
        )
    across = torch.tensor(gains, dtype=torch.float64)[kept].log().numpy()
    heights = table[:, kept]
    (slope, intercept), covariance = np.polyfit(across, heights.mean(0).log().numpy(), 1, cov=True)
    error, freedom = math.sqrt(covariance[0, 0]), len(across) - 2
    if len(table) > 2 and bool((heights > 0).all()):
        slopes, _ = np.polyfit(across, heights.log().T.numpy(), 1)
        between = float(slopes.std(ddof=1)) / math.sqrt(len(table))
        if between > error:
            error, freedom = between, len(table) - 1
    return GainLaw(linear_rate, math.exp(intercept), float(slope), error, freedom)


def gain_schedule(depth: int, exponent: int | float) -> list[float]:
    r"""$\alpha_\ell = \ell^{-k}$ for $\ell = 1, \dots, \text{depth}$: 1 in the first layer, falling if $k > 0$.

    Args:
        depth: Number of layers.
        exponent: $k$; see `GainLaw.exponent`.

    Raises:
        ValueError: If the depth is below 1.
    """
    if depth < 1:
        raise ValueError(f"depth is {depth}, but must be at least 1")
    return [float(layer) ** -exponent for layer in range(1, depth + 1)]
