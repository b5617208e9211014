"""Statistics of a batch at one point of a network, and their change by linear parts, activations and skips."""

import math
from typing import NamedTuple

from torch import Tensor

from orthoscope.activations import Nonlinearity
from orthoscope.theory.network._layer_moments import LayerMoments, difference_noise, layer_moments
from orthoscope.theory.network.hyperparameters import LinearLaw, require_signal

# Closer than this to one direction, the difference of two samples is rounding: they are one.
_ONE_DIRECTION = 1e-13


class Signal(NamedTuple):
    r"""Mean square, mean cosine, and the variance of cosines caused by the finite width of the layers so far.

    Attributes:
        mean_square: Of an entry.
        overlap: Mean cosine of two samples.
        overlap_variance: Of these cosines, over pairs and networks; at most $1 - \rho^2$.
        difference_variance: Of the cosine between $x_1 - x_2$ and $x_3 - x_4$ while it is small, then without bound:
            times the samples, it is the spread of the eigenvalues, which adds up from layer to layer. Infinite when
            all samples are equal.
        mean: Of an entry, over units.
    """

    mean_square: float
    overlap: float
    overlap_variance: float
    difference_variance: float
    mean: float = 0.0

    @property
    def spread(self) -> float:
        """Half the mean squared difference of two samples, per entry."""
        return self.mean_square * (1 - self.overlap)


class Response(NamedTuple):
    """The signal after a layer, and the map of deviations of cosines: multiplied by a slope, plus noise/width."""

    signal: Signal  # its variances are not filled in
    slope: float  # d(overlap after)/d(overlap before)
    noise: float
    difference_slope: float
    difference_noise: float
    common_slope: float | None = None  # that of deviations which pairs have in common, if it is another: batch norm

    def of(self, before: Signal, width: int) -> Signal:
        r"""The signal with its variances.

        Differences: $v' = \text{slope}^2 v + \text{noise}/d$. Overlaps:

        $$ v' = \text{slope}^2 v + \frac{\text{noise}}{d}\Big(1 - \frac{v}{1-\rho^2}\Big)^2 $$

        cut at $1 - \rho'^2$, the largest variance of a cosine of mean $\rho'$. That is where linear response ends; the
        bracket approaches it slowly. For linear layers $c \mapsto c + (1 - c^2)\xi/\sqrt d$, and
        $\mathbb{E}(1-c^2)^2 \approx (1 - \rho^2 - v)^2$. With a common slope, the first term is $\text{slope}^2 w +
        \text{common}^2 (v - w)_+$, where $w$, that of the differences times $(1-\rho)^2$, is what no two pairs share.
        """
        possible, differences = 1 - before.overlap**2, before.difference_variance
        left = max(0.0, 1 - before.overlap_variance / possible) ** 2 if possible > 0 else 0.0
        kept = self.slope**2 * before.overlap_variance
        if self.common_slope is not None:
            single = (1 - before.overlap) ** 2 * differences if before.overlap < 1 else 0.0
            kept = self.slope**2 * single + self.common_slope**2 * max(0.0, before.overlap_variance - single)
        overlaps = kept + self.noise / width * left
        return self.signal._replace(
            overlap_variance=min(overlaps, max(0.0, 1 - self.signal.overlap**2)),
            difference_variance=self.difference_slope**2 * differences + self.difference_noise / width,
        )

    def scaled(self, square: float) -> "Response":
        """Divided by the root of that square, as by a norm over the units of a wide layer."""
        signal = self.signal
        return self._replace(
            signal=signal._replace(mean_square=signal.mean_square / square, mean=signal.mean / math.sqrt(square))
        )


class Branch(NamedTuple):
    """A layer without its skip connection: the response from input to output, and the signals in between."""

    response: Response
    norm: Signal | None
    activation: Signal
    slope_square: float  # mean square of the slope from the linear part to the end, E φ′² over the norm's square
    gradient: Tensor | None = None  # instead, where samples are mixed: see `SphereLayer.gradient`


def linear(before: Signal, law: LinearLaw, rotation: bool) -> Response:
    r"""$u = Wh + b$: mean square $\sigma_w^2 q + \sigma_b^2$; the bias, common to all samples, draws them together.

    With Gaussian weights the overlap $\rho'$ has noise $(1-\rho'^2)^2$. A rotation adds that of the bias alone, which
    has the share $\beta$ of the mean square: $2(1-\rho')^2\beta(\beta + (1-\beta)(1+\rho))$.
    """
    mean_square = law.weight_variance * before.mean_square + law.bias_variance
    require_signal(mean_square)
    share = law.weight_variance * before.mean_square / mean_square
    overlap = 1 - share * (1 - before.overlap)
    noise = (1 - overlap**2) ** 2
    if rotation:
        noise = 2 * (1 - overlap) ** 2 * (1 - share) * (1 - share + share * (1 + before.overlap))
    return Response(Signal(mean_square, overlap, 0.0, 0.0), share, noise, 1.0, 0.0 if rotation else 1.0)


def skipped(before: Signal, branch: Response, scale: float) -> Response:
    r"""$h + sF(h)$ with a random branch $F$: spreads add up, and so do mean squares except for the means.

    $$ q' = q + 2s\,\mathbb{E}h\,\mathbb{E}F + s^2 q_F, \qquad q'(1-\rho') = q(1-\rho) + s^2 q_F (1-\rho_F) $$

    Entries of $h$ and $F$ are independent, so their products are noise:
    $2s^2[(1+\rho'^2)(qq_F + cc_F) - 2\rho'(qc_F + cq_F)]/q'^2$ in the overlap, with $c = q\rho$, and
    $2s^2 SS_F/S'^2$ in the differences, with $S = q(1-\rho)$. Left out: where both have a mean, products
    go along with the noise of the branch; with $s = 1$ and ReLU, variances come out up to 10 % too small.
    """
    after = branch.signal
    mean_square = before.mean_square + 2 * scale * before.mean * after.mean + scale**2 * after.mean_square
    require_signal(mean_square)
    # From here on as shares of q', so that no square overflows.
    q, q_f = before.mean_square / mean_square, scale**2 * after.mean_square / mean_square
    spread, spread_f = q * (1 - before.overlap), q_f * (1 - after.overlap)
    total = spread + spread_f
    overlap = 1 - total
    c, c_f = q - spread, q_f - spread_f
    products = 2 * ((1 + overlap**2) * (q * q_f + c * c_f) - 2 * overlap * (q * c_f + c * q_f))
    # Of samples that are one, no difference is left; of a branch that makes them one, only that of the skip.
    share = spread_f / total if total > 0 else math.nan
    own = share**2 * branch.difference_noise if share > 0 else 0.0
    return Response(
        Signal(mean_square, overlap, 0.0, 0.0, before.mean + scale * after.mean),
        slope=q + q_f * branch.slope,
        common_slope=None if branch.common_slope is None else q + q_f * branch.common_slope,
        noise=q_f**2 * branch.noise + products,
        difference_slope=1 - share + share * branch.difference_slope if total > 0 else 1.0,
        difference_noise=own + 2 * share * (1 - share) if total > 0 else math.inf,
    )


def activated(
    activation: Nonlinearity, lifted: Response, *, centered: bool, rotation: bool
) -> tuple[Response, LayerMoments]:
    """The response from the input of the linear layer to the activation, and the moments behind it."""
    variance, overlap = lifted.signal.mean_square, min(1.0, lifted.signal.overlap)
    bias_share = 1 - lifted.slope
    moments = layer_moments(activation, variance, overlap, centered=centered, rotation=rotation, bias_share=bias_share)
    signal = Signal(moments.square, moments.overlap, 0.0, 0.0, moments.mean)
    slope = lifted.slope * variance * moments.slope_product / moments.square
    if 1 - overlap < _ONE_DIRECTION or moments.spread <= 0:
        return Response(signal._replace(overlap=1.0), slope, 0.0, 1.0, math.inf), moments
    difference_slope = moments.slope_product * variance * (1 - overlap) / moments.spread
    # Slightly negative overlaps, of samples around their mean, are as good as none.
    noise = difference_noise(activation, variance, max(0.0, overlap), rotation=rotation)
    return Response(signal, slope, moments.noise, difference_slope, noise), moments
