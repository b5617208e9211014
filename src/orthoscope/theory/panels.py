r"""Panels on which an activation is resolved at the scale of its inputs: even ones, and narrower where it is steep.

$\tanh(30x)/30$ turns within 0.05 around 0, $\sin(10x)/10$ everywhere: integrals over two Gaussians, in which the
activation meets itself shifted, are cut at the narrow panels of the former and into shorter even ones for the latter.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.activations import Nonlinearity
from orthoscope.theory.quadrature import probes_of, resolving_edges

REACH = 9.0  # beyond 9 standard deviations a Gaussian holds 2e-19
EVEN = 3.6  # standard deviations: 24 nodes are exact to rounding for what varies on the scale of one
# A tail of Legendre coefficients like this leaves its square in integrals of squares, 6e-12.
_TOLERANCE = 2.5e-6
_NARROWEST = 1e-7  # standard deviations: singular at a kink, or too steep
_BUCKETS = 2  # of standard deviations for each factor 2: panels are found once for all variances in one


@dataclass(frozen=True)
class Panels:
    """Even panels of some width, cut further at the edges; `centres` are in the middle of the narrowest, or kinks."""

    width: float
    edges: Float[Tensor, " edges"]
    centres: Float[Tensor, " centres"]

    @property
    def meetings(self) -> Float[Tensor, " meetings"]:
        r"""Where in $(X - Y)/2$ an integral over $X + Y$ changes fast: $X$ and $Y$ are both where $\phi$ is steep."""
        return ((self.edges[:, None] - self.centres) / 2).flatten().unique()


def panels(activation: Nonlinearity, variance: float) -> Panels:
    r"""Panels that resolve $\phi$ and $\phi'$ for inputs of this variance; none but even ones if that suffices."""
    if not bends(activation):
        return _EVEN_ONLY
    # What even panels resolve, shorter ones do.
    if variance <= 1 and _panels(activation, 1.0) is _EVEN_ONLY:
        return _EVEN_ONLY
    bucket = math.ceil(_BUCKETS * math.log2(variance) / 2)
    return _panels(activation, 2.0 ** (bucket / _BUCKETS))


_EVEN_ONLY = Panels(math.inf, torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64))


@lru_cache(maxsize=256)
def _panels(activation: Nonlinearity, deviation: float) -> Panels:
    reach = REACH * deviation
    kinks = torch.tensor([kink for kink in activation.kinks if abs(kink) < reach], dtype=torch.float64)
    even = torch.linspace(-reach, reach, math.ceil(2 * REACH / EVEN) + 1, dtype=torch.float64)
    start = torch.cat([even, kinks]).unique()
    slope = Nonlinearity(f"the slope of {activation.name}", activation.derivative, activation.kinks)
    if not bool(activation(start).isfinite().all()):
        return _EVEN_ONLY  # overflows, and is refused where its mean square is asked for
    edges = start
    for function in (activation, slope):
        edges = resolving_edges(function, edges, _TOLERANCE, _NARROWEST * deviation, deviation)
    if len(edges) == len(start):
        return _EVEN_ONLY
    return fewest_panels(edges, kinks, EVEN * deviation, reach)


def fewest_panels(
    edges: Float[Tensor, " edges"], kinks: Float[Tensor, " kinks"], widest: float, reach: float
) -> Panels:
    """The even width with which even panels and further edges together are fewest."""
    widths = edges.diff()
    choices = []
    for width in torch.cat([widths, torch.tensor([widest], dtype=torch.float64)]).clamp(max=widest).unique().tolist():
        narrow = widths < 0.99 * width
        further = torch.cat([edges[:-1][narrow], edges[1:][narrow]]).unique()
        choices.append((2 * reach / width + len(further), width, further))
    _, width, further = min(choices, key=lambda choice: choice[0])
    return Panels(width, further, torch.cat([_centres(further), kinks[torch.isin(kinks, further)]]).unique())


def _centres(edges: Tensor) -> Tensor:
    """Middles of runs of equal panels with wider ones on both sides."""
    if len(edges) < 2:
        return edges
    widths = edges.diff()
    starts = torch.cat([torch.tensor([True]), (widths.diff().abs() > 0.01 * widths[1:])]).nonzero().flatten()
    ends = torch.cat([starts[1:], torch.tensor([len(widths)])])
    of_runs = torch.cat([torch.tensor([math.inf]), widths[starts], torch.tensor([math.inf])])
    least = (of_runs[1:-1] < of_runs[:-2]) & (of_runs[1:-1] < of_runs[2:])
    return (edges[starts[least]] + edges[ends[least]]) / 2


@lru_cache(maxsize=128)
def bends(activation: Nonlinearity) -> bool:
    """Whether the activation is anything but linear between its kinks."""
    points = torch.linspace(-40, 40, 1601, dtype=torch.float64) + 0.0123  # off round numbers, where kinks are
    points = torch.cat([points, probes_of(activation)]).sort().values
    slopes = activation.derivative(points)
    part = torch.searchsorted(torch.tensor(activation.kinks, dtype=torch.float64), points)
    return any(bool((slopes[part == index] != slopes[part == index][0]).any()) for index in part.unique())
