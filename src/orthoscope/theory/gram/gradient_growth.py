r"""Growth of gradients toward the input in a deep, wide network with batch normalization, for any activation.

Backward through one layer $x' = \phi(y)$, $y = \mathrm{BN}(h)$, $h = Wx$, one unit's gradient over the $n$ samples of
the batch goes from $g'$ to $\sqrt n/\|h\| \cdot Q_y D g'$ (centered: $\|h - \bar h\|$), with $D =
\operatorname{diag}\phi'(y)$, and $Q_y$ projects on the complement of $y$, where batch normalization has a derivative
(centered: and of $\mathbf{1}$). Then $W^\top$ mixes the units. With the gradient independent of $h$, as in the limit of
infinite width, the covariance $K$ of the gradient over samples obeys

$$ K = E\Big[\frac{n}{\|h\|^2}\, Q_y D K' D Q_y\Big], \qquad h \sim \mathcal{N}(0, G_*), $$

a linear map of exchangeable matrices whose largest eigenvalue $\chi$ is the growth of the squared gradient per layer.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.activations import Choice, Nonlinearity, nonlinearity
from orthoscope.theory.gram.dynamics import contrast, eigenvalue_ratio, fixed_point_entries, pair_law, slope_if_linear
from orthoscope.theory.gram.sphere import PairLaw, stretched
from orthoscope.theory.sources import source

Map = Float[Tensor, "2 2"]

JUMP = 1e-6  # a change of the activation over 2e-9 that no slope explains


@source(
    "orthoscope",
    "gradient growth with batch normalization; n → ∞: yang2019",
    assumes="infinite width, Gaussian weights, no bias, deep, at the Gram fixed point (stable: gram_response), "
    "gradient independent of the forward weights",
)
def gradient_growth(
    batch: int, *, centered: bool = True, activation: Choice = "identity", gain: int | float = 1.0
) -> float:
    r"""Growth of $\log\|\nabla W\|$ per layer toward the input, $\tfrac12\log\chi$.

    Linear: $\chi = \frac{n-2}{n-3}$ centered, $\frac{n-1}{n-2}$ not. Any activation: `centered_multiplier` or
    `uncentered_multiplier`. Infinite, and refused, for $n \le 3$ centered and $n \le 2$ not: the norm that
    divides the gradient is then too often close to 0.
    """
    least = 4 if centered else 3
    if isinstance(batch, bool) or batch < least:
        raise ValueError(
            f"batch is {batch}, but the mean squared gradient is infinite below {least} samples "
            f"with batch normalization {'that centers' if centered else 'without centering'}"
        )
    phi = nonlinearity(activation, gain)
    if slope_if_linear(phi) is not None:
        return 0.5 * math.log((batch - least + 2) / (batch - least + 1))
    kinks = torch.tensor(phi.kinks, dtype=torch.float64)
    jumps = kinks[(phi(kinks + 1e-9) - phi(kinks - 1e-9)).abs() > JUMP]
    if len(jumps):
        raise ValueError(f"activation {phi.name} jumps at {jumps[0]:g}: there the gradient is not defined")
    multiplier = centered_multiplier(phi, batch) if centered else uncentered_multiplier(phi, batch)
    return 0.5 * math.log(multiplier)


def centered_multiplier(phi: Nonlinearity, batch: int) -> float:
    r"""$\chi$ with centering: shifts are invisible, so $K \propto P$ stays, the projection on $\mathbf{1}^\perp$.

    $\|h - \bar h\|^2$ is $\kappa_{11} - \kappa_{12}$ times a $\chi^2_{n-1}$, independent of $y$, with
    $\kappa_{11} = E\phi(y_1)^2$ and $\kappa_{12} = E\phi(y_1)\phi(y_2)$, so with $Q_y = P - \tfrac1n yy^\top$

    $$ \chi = \frac{n}{(n-3)(n-1)(\kappa_{11}-\kappa_{12})}\, E\operatorname{tr}[Q_y D P D Q_y], $$

    and, with $f_i = \phi'(y_i)$, the trace is
    $(n-2) E f_1^2 - E y_1^2 f_1^2 + \tfrac1n\big(E f_1^2 + E y_1^2 f_1^2 + (n-1) E[(1 + y_1 y_2) f_1 f_2]\big)$.
    """
    law = pair_law(phi, batch, centered=True)
    slopes, other_slopes = phi.derivative(law.first), phi.derivative(law.second)
    alone = law.average(slopes.square())
    weighted = law.average((law.first * slopes).square())
    pairs = law.average((1 + law.first * law.second) * slopes * other_slopes)
    trace = (batch - 2) * alone - weighted + (alone + weighted + (batch - 1) * pairs) / batch
    return batch * trace / ((batch - 3) * (batch - 1) * contrast(phi, law))


def uncentered_multiplier(phi: Nonlinearity, batch: int) -> float:
    r"""$\chi$ without centering: the largest eigenvalue of the map on $K' = pI + q\mathbf{1}\mathbf{1}^\top$.

    Given the direction of $h$, $E[n/\|h\|^2 \mid y] = y^\top G_*^{-1} y/(n-2)$, which depends on $\bar y$ only.
    With $Q_y = I - \tfrac1n yy^\top$, $f_i = \phi'(y_i)$ and $z_i = 1 - \bar y y_i$, a matrix $K$ is found from its
    trace and its sum,

    $$ \operatorname{tr} Q_yDDQ_y = \sum_i f_i^2\big(1 - \tfrac1n y_i^2\big), \qquad
       \operatorname{tr} Q_y ff^\top Q_y = \sum_i f_i^2 - \tfrac1n\big(\sum_i y_i f_i\big)^2, $$
    $$ \mathbf{1}^\top Q_yDDQ_y\mathbf{1} = \sum_i f_i^2 z_i^2, \qquad
       \mathbf{1}^\top Q_y ff^\top Q_y\mathbf{1} = \big(\sum_i f_i z_i\big)^2. $$
    """
    diagonal, off = fixed_point_entries(phi, batch, centered=False)
    along, across = diagonal + (batch - 1) * off, diagonal - off
    law = stretched(pair_law(phi, batch, centered=False), batch, eigenvalue_ratio(off / diagonal, batch))
    inverse = (1 - law.mean.square()) / across + law.mean.square() / along
    return float(torch.linalg.eigvals(gradient_map(law, phi, batch, inverse)).real.max())


def gradient_map(law: PairLaw, phi: Nonlinearity, samples: int, inverse: Tensor) -> Map:
    r"""The map whose largest eigenvalue is `uncentered_multiplier`, of two mean squares.

    That of a gradient, and that of its sum over the batch divided by $\sqrt n$; `inverse` is $D_y/n$,
    $D_y = y^\top G^{-1} y$, and $E[n/\|h\|^2|y] = D_y/(n-2)$.
    """
    n, shrink = samples, samples / (samples - 2) * inverse
    y, other_y, f, other_f = law.first, law.second, phi.derivative(law.first), phi.derivative(law.second)
    z, other_z = 1 - law.mean * y, 1 - law.mean * other_y
    trace = law.average(shrink * f.square() * (1 - y.square() / n))
    total = law.average(shrink * (f * z).square())
    trace_of_ones = trace - (n - 1) / n * law.average(shrink * y * f * other_y * other_f)
    total_of_ones = total + (n - 1) * law.average(shrink * f * z * other_f * other_z)
    return map_of_mean_squares([trace, trace_of_ones, total, total_of_ones], n)


def map_of_mean_squares(images: list[float], samples: int) -> Map:
    r"""The map of mean squares from what it makes of $I$ and $\mathbf{1}\mathbf{1}^\top$, which have 1, 1 and 1, n."""
    known = torch.tensor([[1.0, 1.0], [1.0, float(samples)]], dtype=torch.float64)
    return torch.linalg.solve(known, torch.tensor(images, dtype=torch.float64).view(2, 2), left=False)
