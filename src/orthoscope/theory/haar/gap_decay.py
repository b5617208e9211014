r"""Decay of the isometry gap along the chain $X_{\ell+1} = \mathrm{BN}(W_\ell X_\ell)$ with Haar weights: bounds.

Setting and notation as in `haar.batch_norm`. The bounds are proven, for every width and gap, and far from sharp: at
a small gap the true factor of a layer is `haar_contraction`, $1 - 2/(d+2)$, and the bound is $1 - 1/(2d^2)$.
"""

import torch

from orthoscope.theory.haar.batch_norm import CHAIN, NORMALISED, Scalar
from orthoscope.theory.sources import source

_TRACE = "eigenvalues of XX' with sum equal to the width, as after batch norm"


@source("joudaki2024", "section C.2, threshold between the two phases", assumes=CHAIN)
def near_isometry(width: int) -> float:
    r"""The gap $1/(16d)$ below which all eigenvalues are within 0.4 of 1 and the decay is geometric."""
    if width < 2:
        raise ValueError(f"one unit is always isometric: width is 2 or more here, got {width}")
    return 1 / (16 * width)


@source("joudaki2024", "Lemma C.8 (corrected: gap at most c²/(16 width), not c/(16 width))", assumes=_TRACE)
def eigenvalue_radius(width: int, gap: Scalar) -> Scalar:
    r"""All eigenvalues are in $[1-c, 1+c]$ for $c = 4\sqrt{d\,\psi}$, if $\psi \le 1/(16d)$.

    Sharp up to a constant: one eigenvalue can be $1 \pm \sqrt{2d\psi}$ to first order.
    """
    _refuse_gap(gap)
    if bool((gap > near_isometry(width)).any()):
        raise ValueError(
            f"the radius is for gaps up to 1/(16 width) = {near_isometry(width):.4g}, got {float(gap.max()):.4g}"
        )
    return 4 * (width * gap.double()).sqrt()


@source("joudaki2024", "Lemma C.9", assumes=NORMALISED)
def next_gap_bound(width: int, gap: Scalar) -> Scalar:
    r"""Upper bound on the mean isometry gap after one layer, from the gap before it.

    $$ \mathbb E[\psi' \mid \psi] \le \begin{cases} \psi\,(1 - \frac1{2d^2}) & \psi \le \frac1{16d} \\
       \psi - \frac{1}{32d^3} & \text{otherwise} \end{cases} $$

    The printed proof approximates $d(d+2)$ by $d^2$; `haar_variance_gap_bound` closes that step for $d \ge 2$.
    """
    _refuse_gap(gap)
    gap = gap.double()
    near = gap * (1 - 1 / (2 * width**2))
    return torch.where(gap <= near_isometry(width), near, gap - 1 / (32 * width**3))


@source("joudaki2024", "Theorem 6.1, the k of its proof (C.73)", assumes=CHAIN)
def gap_decay_depth(width: int, initial_gap: Scalar) -> Scalar:
    r"""Layers over which the bound on the mean gap falls by $e$: $k = \max(2d^2, 32d^3\psi_0)$.

    So the constant of $k = Cd^2(1+d\psi_0)$ is $C = 32$.
    """
    _refuse_gap(initial_gap)
    near_isometry(width)
    return (32 * width**3 * initial_gap.double()).clamp_min(2 * width**2)


@source("joudaki2024", "Theorem 6.1, with the constant of its proof", assumes=f"{CHAIN}; any non-degenerate input X_0")
def isometry_gap_bound(width: int, initial_gap: Scalar, depth: int) -> Scalar:
    r"""Upper bound on the mean isometry gap of $X_{\ell+1}$, $\ell$ being the `depth` from 0.

    $$ \mathbb E\,\psi(X_{\ell+1}) \le \psi_0\, e^{-\ell/k}, \qquad k \text{ of `gap_decay_depth`} $$

    The first layer, whose input may not be normalised, is not counted: it cannot raise the gap.
    """
    if depth < 0:
        raise ValueError(f"depth is 0 or more layers, got {depth}")
    return initial_gap.double() * torch.exp(-depth / gap_decay_depth(width, initial_gap))


def _refuse_gap(gap: Scalar) -> None:
    if not bool((gap >= 0).all()):
        raise ValueError(f"an isometry gap is 0 or more, got {float(gap.min()):.4g}")
