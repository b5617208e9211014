"""Gradients along depth: log-norms, the explosion rate, and a slope whose error allows for correlated layers."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.metrics.representations import Scalar

LogNorms = Float[Tensor, "*batch layers"]


class Slope(NamedTuple):
    """Growth of the log-gradient per layer toward the input, positive when gradients grow from output to input.

    Attributes:
        value: The slope.
        standard_error: Its standard error.
        layers: Number of layers it was fitted to.
    """

    value: Tensor
    standard_error: Tensor
    layers: int


def log_norm(gradient: Float[Tensor, "*batch rows columns"]) -> Scalar:
    r"""$\log\|g\|_F$ of a matrix, without overflow or underflow; minus infinity for zero, nan if any entry is."""
    entries = gradient.double()
    largest = entries.detach().abs().amax((-2, -1))
    scale = torch.where((largest > 0) & (largest < torch.inf), largest, 1.0)
    return torch.linalg.matrix_norm(entries / scale[..., None, None]).log() + scale.log()


def explosion_rate(log_norms: LogNorms, gap: int = 10) -> Float[Tensor, "*batch rates"]:
    r"""Growth of the log-gradient per layer over a gap of $g$ layers, for $\ell = g, g+1, \dots$ from the input.

    $$ R(\ell) = \frac{\log\|\nabla W_{\ell-g}\| - \log\|\nabla W_\ell\|}{g} $$

    Positive when gradients grow toward the input (joudaki2024, equation C.155, with the sign corrected).
    """
    layers = log_norms.shape[-1]
    if not 1 <= gap < layers:
        raise ValueError(f"a gap of {gap} layers needs more than {gap} layers, got {layers}: choose 1 to {layers - 1}")
    return (log_norms[..., :-gap] - log_norms[..., gap:]).double() / gap


def depth_slope(log_norms: LogNorms) -> Slope:
    r"""Least-squares slope of log-norms over layers, counted toward the input, for layers $0..L-1$ from the input.

    A log-gradient is closer to a random walk than to a line with independent noise, so the textbook
    standard error is far too small. With $s^2$ the long-run variance of the increments (Bartlett's
    weights, about $L^{1/3}$ lags), a walk's least-squares slope has variance $\tfrac65 s^2/L$;
    the larger of that and the textbook error is given. It is itself an estimate from few layers: judge by
    Student's quantiles with `layers - 2` degrees of freedom, not by the normal ones.
    """
    values = -log_norms.double()
    layers = values.shape[-1]
    if layers < 3:
        raise ValueError(f"a slope with an error needs at least 3 layers, got {layers}")
    depth = torch.arange(layers, dtype=torch.float64, device=values.device)
    depth = depth - depth.mean()
    spread = depth.square().sum()
    slope = (values * depth).sum(-1) / spread
    residuals = values - values.mean(-1, keepdim=True) - slope.unsqueeze(-1) * depth
    textbook = residuals.square().sum(-1) / (layers - 2) / spread
    walk = 1.2 * _long_run_variance(values.diff(dim=-1)) / layers
    return Slope(slope, torch.maximum(textbook, walk).sqrt(), layers)


def _long_run_variance(increments: Float[Tensor, "*batch steps"]) -> Scalar:
    r"""$\gamma_0 + 2\sum_{k=1}^{K}(1-\tfrac{k}{K+1})\gamma_k$ of the autocovariances $\gamma$, never negative."""
    steps = increments.shape[-1]
    centered = increments - increments.mean(-1, keepdim=True)
    variance = centered.square().sum(-1) / (steps - 1)
    lags = min(round(steps ** (1 / 3)), steps - 1)
    for lag in range(1, lags + 1):
        covariance = (centered[..., lag:] * centered[..., :-lag]).sum(-1) / (steps - 1)
        variance = variance + 2 * (1 - lag / (lags + 1)) * covariance
    return variance.clamp_min(0)


def gradient_disparity(gradient: Float[Tensor, "*batch out fan_in"]) -> Scalar:
    r"""$\kappa$: mean distance $\|g_i - g_j\|_2$ over pairs of rows, the gradients of two weight vectors (lu2024)."""
    rows = gradient.double()
    count = rows.shape[-2]
    # Exact differences: the quick way by products loses equal rows to rounding.
    distances = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.sum((-2, -1)) / (count * (count - 1))
