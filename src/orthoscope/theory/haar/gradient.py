r"""Gradients through batch norm and Haar weights stay bounded at any depth: bounds on Jacobians and on log-norms.

Setting and notation as in `haar.batch_norm`. Norms of Jacobians are operator norms, of gradients Frobenius norms.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.haar.batch_norm import NORMALIZED, Scalar, Spectrum, near_isometry
from orthoscope.theory.sources import source

_TRACE = "square input X with tr XX' equal to the width, as W times the output of a batch norm has"


@source("joudaki2024", "Lemma C.16", assumes="square, non-degenerate input of batch norm without centering or epsilon")
def batch_norm_jacobian_bound(spectrum: Spectrum) -> Scalar:
    r"""$\|J_{\mathrm{BN}}(X)\| = 1/\min_j\|X_j\| \le 1/\sqrt{\min_k \lambda_k}$; equality for a diagonal $XX^\top$."""
    if not bool((spectrum > 0).all()):
        raise ValueError("a spectrum is the eigenvalues of XX', all positive: dependent samples have no bound")
    return spectrum.double().amin(-1).rsqrt()


@source("joudaki2024", "Lemma C.17", assumes=_TRACE)
def smallest_eigenvalue_bound(width: int, gap: Scalar) -> Scalar:
    r"""Lower bound on the smallest eigenvalue of a trace-normalized Gram with isometry gap $\psi$.

    $$ \lambda_d \ge e^{-2\sqrt{d\psi}} \text{ if } \psi \le \tfrac1{16d},
       \qquad \lambda_d \ge e^{-(d\psi+1)} \text{ otherwise} $$
    """
    return torch.exp(-batch_norm_log_jacobian_bound(width, gap))


@source("joudaki2024", "Lemma C.13 (corrected: needs tr XX' equal to the width)", assumes=_TRACE)
def batch_norm_log_jacobian_bound(width: int, gap: Scalar) -> Scalar:
    r"""Upper bound on $\log\|J_{\mathrm{BN}}(X)\|$ from the isometry gap of $X$.

    $$ \log\|J_{\mathrm{BN}}(X)\| \le 2\sqrt{d\psi} \text{ if } \psi \le \tfrac1{16d},
       \qquad \le d\psi + 1 \text{ otherwise} $$

    Half of it holds too, because $\log\|J\| \le -\frac12\log\lambda_d$ (Lemmas C.16 and C.17).
    """
    if not bool((gap >= 0).all()):
        raise ValueError(f"an isometry gap is 0 or more, got {float(gap.min()):.4g}")
    scaled = width * gap.double()
    return torch.where(gap <= near_isometry(width), 2 * scaled.sqrt(), scaled + 1)


@source("joudaki2024", "Lemma C.14", assumes=NORMALIZED)
def hitting_time_bound(width: int, initial_gap: Scalar) -> Scalar:
    r"""Upper bound on the mean number of layers $S$ until the gap is at most $1/(16d)$.

    $$ \mathbb E S \le 512\,d^4\psi_0^2, \qquad S = 0 \text{ if } \psi_0 \le \tfrac1{16d} $$

    No hidden constant: by `next_gap_bound` the mean gap falls by $1/(32d^3)$ a layer until then, so
    $\mathbb E S \le 32d^3\psi_0$, which is less.
    """
    far = initial_gap.double() > near_isometry(width)
    return torch.where(far, 512 * width**4 * initial_gap.double().square(), 0.0)


@source("joudaki2024", "Lemma C.15", assumes=NORMALIZED)
def second_phase_bound(width: int, initial_gap: Scalar, depth: int | float) -> Scalar:
    r"""Upper bound on the sum of root gaps after the first $S$ layers; `depth` $L$ may be infinite.

    $$ \mathbb E\sum_{\ell=S+1}^{L} \sqrt{d\,\psi(X_\ell)} \le 32\,d^{4.5}\psi_0^{1/2}\,(1 - e^{-L/(32d^4)}) $$

    The last step of its printed proof, (C.111), goes the wrong way; the lemma follows all the same, as the sum
    starts at $S+1$ and $\sum_{k=1}^L e^{-ak} \le \int_0^L e^{-as}ds$.
    """
    if depth < 0:
        raise ValueError(f"depth is 0 or more layers, got {depth}")
    scale = 32.0 * width**4
    fraction = -torch.expm1(torch.tensor(-depth / scale, dtype=torch.float64))
    return scale * (width * initial_gap.double()).sqrt() * fraction


@source("joudaki2024", "Theorem 6.5, with the constants of its proof", assumes=f"{NORMALIZED}; Lipschitz loss")
def gradient_log_norm_bound(width: int, initial_gap: Scalar, loss_lipschitz: float = 1.0) -> Scalar:
    r"""Upper bound on the mean log-norm of the gradient of any layer's weights, at any depth.

    $$ \mathbb E\log\|\nabla_{W_\ell}\mathcal L\| \le \log \mathrm{Lip} + \log d
       + \mathbb E S\,(d\psi_0 + 1) + 64\,d^{4.5}\min(\psi_0, \tfrac1{16d})^{1/2} $$

    $\mathbb E S$ of `hitting_time_bound`; of the form $Cd^5(\psi_0^3+1)$, and astronomical: see
    `drift_gradient_log_norm_bound`. `loss_lipschitz` is with respect to the last $X$, in Frobenius norm.
    """
    first_phase = hitting_time_bound(width, initial_gap) * (width * initial_gap.double() + 1)
    second_phase = 2 * second_phase_bound(width, initial_gap.clamp_max(near_isometry(width)), torch.inf)
    return _log(loss_lipschitz) + _log(width) + first_phase + second_phase


@source("orthoscope", "Theorem 6.5 of joudaki2024, sharpened", assumes=f"{NORMALIZED}; Lipschitz loss")
def drift_gradient_log_norm_bound(width: int, initial_gap: Scalar, loss_lipschitz: float = 1.0) -> Scalar:
    r"""`gradient_log_norm_bound` with powers $d^4\psi_0^2 + d^2$ instead of $d^5(\psi_0^3 + 1)$; width 2 or more.

    $$ \mathbb E\log\|\nabla_{W_\ell}\mathcal L\| \le \log\mathrm{Lip} + \tfrac12\log d
       + \tfrac12(d\psi_0+1)\,16d\,r\,\psi_0\,[\psi_0 > \tfrac1{16d}] + 2r\,(d\min(\psi_0,\tfrac1{16d}))^{1/2},
       \quad r = \tfrac13(2d+1)(d+2) $$

    By `haar_variance_gap_bound` the mean gap falls by $1/(16dr)$ a layer while above $1/(16d)$, so that phase lasts
    $16dr\psi_0$ layers on average (drift), and by the factor $1-1/r$ below it, where $\mathbb E\sqrt{\psi'} \le
    \sqrt{1-1/r}\sqrt\psi$ (Jensen) makes a geometric series with sum at most $2r$. A layer adds half of
    `batch_norm_log_jacobian_bound`, and $\|X_\ell\| \le \sqrt d$.
    """
    gap = initial_gap.double()
    layers = (2 * width + 1) * (width + 2) / 3
    far = gap > near_isometry(width)
    first_phase = torch.where(far, (width * gap + 1) / 2 * (16 * width * layers * gap), 0.0)
    second_phase = 2 * layers * (width * gap.clamp_max(near_isometry(width))).sqrt()
    return _log(loss_lipschitz) + _log(width) / 2 + first_phase + second_phase


def _log(value: int | float) -> Float[Tensor, ""]:
    if not value > 0:
        raise ValueError(f"a Lipschitz constant is positive, got {value}")
    return torch.tensor(float(value), dtype=torch.float64).log()
