r"""Gram matrices of deep, wide networks with batch normalization: the mean-field recursion and its fixed point.

A layer is $x \mapsto \phi(\mathrm{BN}(Wx))$ with Gaussian $W$. At infinite width the Gram matrix of a batch of $n$
samples, $G = \tfrac1d \phi(\mathrm{BN}(h))^\top \phi(\mathrm{BN}(h))$ for $h$ of shape (width, samples), obeys

$$ G_{\ell+1} = E_{h \sim \mathcal{N}(0, G_\ell)}\big[\phi(y)\,\phi(y)^\top\big], \qquad
   y = \sqrt n\,\frac{h - \bar h}{\|h - \bar h\|} \text{ (centered)} \quad\text{or}\quad \sqrt n\,\frac{h}{\|h\|}. $$

Batches start with one overlap for all pairs, so $G$ stays exchangeable: one number on the diagonal, one off it.
"""

import math

import torch
from jaxtyping import Float
from scipy.optimize import brentq
from torch import Tensor

from orthoscope.activations import Choice, Nonlinearity, nonlinearity
from orthoscope.theory.gram.sphere import PairLaw, centered_pair, require_batch, stretched, uncentered_pair
from orthoscope.theory.quadrature import panels
from orthoscope.theory.sources import source

Gram = Float[Tensor, "batch batch"]

# Without centering, three integrals are a table of some 1e6 nodes at a batch of 32.
LARGEST_UNCENTERED = 32

_ONE_OVERLAP = "infinite width, Gaussian weights, no bias, samples of one length and one overlap"


@source(
    "yang2019",
    "fixed points of batch normalization; joudaki2024, (3.2) and (3.3) (corrected)",
    assumes=_ONE_OVERLAP,
)
def gram_fixed_point(activation: Choice, batch: int, *, gain: int | float = 1.0, centered: bool = True) -> Gram:
    r"""The Gram matrix $G_*$ that depth leads to: $G_* = E[\phi(y)\phi(y)^\top]$, $h \sim \mathcal{N}(0, G_*)$.

    Centered, as `nn.BatchNorm1d` is: $y$ is uniform on a sphere of $\mathbf{1}^\perp$ whatever exchangeable $G$ came
    before, so $G_*$ is reached in one layer, with diagonal $E\phi(y_1)^2$ and $E\phi(y_1)\phi(y_2)$ off it. Linear:
    $G_* = \tfrac{n}{n-1}(I - \tfrac1n\mathbf{1}\mathbf{1}^\top)$, singular; not centered, linear: $I$. Whether samples
    that differ a little tend to it too is decided by `gram_response`.
    """
    return _matrix(batch, *fixed_point_entries(nonlinearity(activation, gain), batch, centered))


@source("joudaki2024", "equation (3.3)", assumes=_ONE_OVERLAP)
def gram_trajectory(
    activation: Choice,
    batch: int,
    *,
    overlap: int | float = 0.5,
    depth: int = 20,
    gain: int | float = 1.0,
    centered: bool = True,
) -> Float[Tensor, "layers batch batch"]:
    r"""$G_0, \dots, G_L$ of the recursion $G_{\ell+1} = E_{h \sim \mathcal{N}(0, G_\ell)}[\phi(y)\phi(y)^\top]$.

    $G_0$ has ones on the diagonal and `overlap` off it, between $-1/(n-1)$ and 1.
    """
    phi = nonlinearity(activation, gain)
    require_batch(batch, 2)
    if not -1 / (batch - 1) < overlap < 1:
        raise ValueError(
            f"overlap is {overlap}, but {batch} samples can have one overlap between -1/{batch - 1} and 1 only"
        )
    if depth < 0:
        raise ValueError(f"depth is {depth}, but must be at least 0")
    layer = _Layer(phi, batch, centered)
    entries = [(1.0, float(overlap))]
    for _ in range(depth):
        diagonal, off = entries[-1]
        entries.append(layer.entries(off / diagonal))
    return torch.stack([_matrix(batch, *pair) for pair in entries])


@source("orthoscope", "eigenvalues of the fixed point", assumes=_ONE_OVERLAP)
def gram_condition(activation: Choice, batch: int, *, gain: int | float = 1.0, centered: bool = True) -> float:
    r"""$\kappa(G_*)$, largest over smallest eigenvalue of the fixed point; infinite for linear and centered.

    The eigenvalues are $a + (n-1)b$ along $\mathbf{1}$ and $a - b$ across it, $a$ and $b$ the two entries of $G_*$.
    """
    diagonal, off = fixed_point_entries(nonlinearity(activation, gain), batch, centered)
    eigenvalues = (diagonal + (batch - 1) * off, diagonal - off)
    smallest = min(eigenvalues)
    rounding = batch * torch.finfo(torch.float64).eps * max(eigenvalues)
    return max(eigenvalues) / smallest if smallest > rounding else math.inf


def fixed_point_entries(phi: Nonlinearity, batch: int, centered: bool) -> tuple[float, float]:
    """The two entries of the fixed point: on and off the diagonal."""
    require_batch(batch, 2)
    slope = slope_if_linear(phi)
    if slope is not None:
        return (slope**2, -(slope**2) / (batch - 1)) if centered else (slope**2, 0.0)
    layer = _Layer(phi, batch, centered)
    if centered:
        return layer.entries(0.0)

    def drift(overlap: float) -> float:
        diagonal, off = layer.entries(overlap)
        return off / diagonal - overlap

    # Depth takes overlaps away from both ends, where the samples are dependent.
    least, most = 0.0, 0.5
    while drift(least) < 0:
        least = (least - 1 / (batch - 1)) / 2
    while drift(most) > 0:
        most = (1 + 3 * most) / 4
    return layer.entries(float(brentq(drift, least, most, xtol=1e-14)))


def slope_if_linear(phi: Nonlinearity) -> float | None:
    r"""$c$ if $\phi(x) = cx$ with $c \ne 0$, else nothing."""
    points = torch.linspace(-20, 20, 81, dtype=torch.float64)
    slope = float(phi(torch.ones(1, dtype=torch.float64)))
    return slope if slope and torch.allclose(phi(points), slope * points, rtol=1e-14, atol=0) else None


def contrast(phi: Nonlinearity, law: PairLaw) -> float:
    r"""$\kappa_{11} - \kappa_{12} = \tfrac12 E(\phi(y_1) - \phi(y_2))^2$: the energy in which samples differ."""
    found = law.average((phi(law.first) - phi(law.second)).square()) / 2
    if not found > 0:
        raise ValueError(
            f"activation {phi.name} is constant on all outputs of batch normalization: all samples become equal"
        )
    return found


class _Layer:
    """One layer as a map from the overlap of its inputs to the two entries of the Gram of its outputs."""

    def __init__(self, phi: Nonlinearity, batch: int, centered: bool) -> None:
        self.batch, self.centered = batch, centered
        self.law = pair_law(phi, batch, centered)
        first, second = phi(self.law.first), phi(self.law.second)
        self.squares, self.products = first.square(), first * second

    def entries(self, overlap: float) -> tuple[float, float]:
        law = self.law if self.centered else stretched(self.law, self.batch, eigenvalue_ratio(overlap, self.batch))
        diagonal = law.average(self.squares)
        if not diagonal > 0:
            raise ValueError("the activation is 0 on all outputs of batch normalization: the Gram matrix is 0")
        return diagonal, law.average(self.products)


def pair_law(phi: Nonlinearity, batch: int, centered: bool) -> PairLaw:
    """The law of normalized samples of no overlap, split at the kinks of the activation and where it is steep."""
    if not centered and batch > LARGEST_UNCENTERED:
        raise ValueError(
            f"batch is {batch}: nonlinear activations without centering take up to {LARGEST_UNCENTERED} samples"
        )
    fine = panels(phi, 1.0)
    law = centered_pair if centered else uncentered_pair
    return law(batch, phi.kinks, edges=tuple(fine.edges.tolist()), width=fine.width)


def eigenvalue_ratio(overlap: float, batch: int) -> float:
    r"""$(1 + (n-1)\rho)/(1-\rho)$: the eigenvalue of the Gram along $\mathbf{1}$ over those across it."""
    return (1 + (batch - 1) * overlap) / (1 - overlap)


def _matrix(batch: int, diagonal: float, off: float) -> Gram:
    return torch.full((batch, batch), off, dtype=torch.float64).fill_diagonal_(diagonal)
