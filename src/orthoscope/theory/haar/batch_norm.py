r"""Batch norm with Haar orthogonal weights: isometry after one layer $\mathrm{BN}(WX)$, and bounds along the chain.

$X$ is $d \times d$, units by samples (`width` is $d$); BN divides each row by its norm, without centering. Then
$XX^\top$ has unit diagonal and its eigenvalues $\lambda$, the `spectrum`, are positive with sum $d$; every such
spectrum occurs. Averages are over the random weights; nothing else is random.

The bounds on the decay of the isometry gap along $X_{\ell+1} = \mathrm{BN}(W_\ell X_\ell)$ are proven for every width
and gap, and far from sharp: at a small gap the true factor of a layer is `haar_contraction`, $1 - 2/(d+2)$, and the
bound is $1 - 1/(2d^2)$. With them, log-norms of gradients stay bounded at any depth. Norms of Jacobians are operator
norms, of gradients Frobenius norms.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from orthoscope.theory.sources import source

Spectrum = Float[Tensor, "*batch width"]
Scalar = Float[Tensor, "*batch"]

CHAIN = "as many samples as units, linear activation, batch norm without centering or epsilon, Haar weights"
NORMALIZED = f"{CHAIN}; X is itself the output of a batch norm"
_TRACE = "eigenvalues of XX' with sum equal to the width, as after batch norm"
_SQUARE = "square input X with tr XX' equal to the width, as W times the output of a batch norm has"


@source("joudaki2024", "equation (6.5), isometry gap", assumes="positive eigenvalues")
def spectral_isometry_gap(spectrum: Spectrum) -> Scalar:
    r"""$\psi = \log \frac1d \sum_k \lambda_k - \frac1d \sum_k \log \lambda_k \ge 0$ of the eigenvalues of $XX^\top$."""
    eigenvalues = spectrum.double()
    return (eigenvalues.mean(-1).log() - eigenvalues.log().mean(-1)).clamp_min(0)


@source("orthoscope", "contraction of the isometry gap near isometry", assumes=f"{NORMALIZED}; gap much below 1/width")
def haar_contraction(width: int) -> float:
    r"""Factor by which one layer shrinks a small isometry gap on average.

    $$ \mathbb E\,\psi(\mathrm{BN}(WX)) = \frac{d}{d+2}\,\psi(X) $$

    For $XX^\top = I + E$, $\psi = \|E\|_F^2/(2d)$ to second order, and BN removes the diagonal of $WEW^\top$, on
    average $d \cdot 2\|E\|_F^2/(d(d+2))$ of $\|E\|_F^2$.
    """
    if width < 1:
        raise ValueError(f"width is 1 or more, got {width}")
    return width / (width + 2)


@source("orthoscope", "expected isometry gap after one layer, exactly", assumes=NORMALIZED)
def expected_haar_gap(spectrum: Spectrum) -> Scalar:
    r"""Mean over $W$ of the isometry gap of $\mathrm{BN}(WX)$, to absolute error about $10^{-14}$.

    BN multiplies $\det$ by the inverse squared row norms $\sum_k \lambda_k w_k^2$, $w$ uniform on the sphere, so

    $$ \mathbb E\,\psi(\mathrm{BN}(WX)) = \psi(X) + \mathbb E \log \sum_k \lambda_k w_k^2
       = \psi(X) + \int_0^\infty \Big( (1+t)^{-d/2} - \prod_k (1+t\lambda_k)^{-1/2} \Big) \frac{dt}{t} $$

    (Frullani's integral of a Gaussian quadratic form). In two dimensions it is
    $\psi + 2\log\frac{\sqrt{\lambda_1}+\sqrt{\lambda_2}}2$.
    """
    eigenvalues = _normalized(spectrum)
    width = eigenvalues.shape[-1]
    # With t = e^u the trapezoidal rule converges like exp(-pi^2/step): the integrand is analytic for |Im u| < pi.
    # Ends: the integrand is below (t d)^2 on the left and (t min λ)^(-d/2) on the right.
    step = 0.25
    left, right = -20.0 - float(eigenvalues.max().log()), 74.0 / width - float(eigenvalues.min().log())
    t = torch.arange(left, right, step, dtype=torch.float64).exp().unsqueeze(-1)
    each = eigenvalues.unsqueeze(-2)
    # log of (1 + t λ)/(1 + t): the first form keeps a small λ - 1, the second a small λ.
    near, far = (t * (each - 1) / (1 + t)).log1p(), (t * each).log1p() - t.log1p()
    log_ratio = torch.where((each - 1).abs() < 0.5, near, far).sum(-1)
    log_first = -width / 2 * t.squeeze(-1).log1p()
    log_second = log_first - log_ratio / 2
    # exp(a) - exp(b) with the larger one in front: neither cancels nor overflows.
    difference = log_ratio.sign() * -torch.expm1(-log_ratio.abs() / 2) * torch.maximum(log_first, log_second).exp()
    return spectral_isometry_gap(spectrum) + difference.sum(-1) * step


@source("joudaki2024", "Theorem 6.3 and Theorem C.4", assumes=NORMALIZED)
def haar_isometry_gain(spectrum: Spectrum) -> Scalar:
    r"""Factor by which one layer raises the isometry at least, on average; 1 exactly for orthogonal samples.

    $$ \mathbb E\, \mathcal I(\mathrm{BN}(WX))
       \ge \Big(1 - \frac{\sum_k(\lambda_k-1)^2}{2d^2(d+2)}\Big)^{-1} \mathcal I(X) $$
    """
    eigenvalues = _normalized(spectrum)
    width = eigenvalues.shape[-1]
    return 1 / (1 - (eigenvalues - 1).square().sum(-1) / (2 * width**2 * (width + 2)))


@source("joudaki2024", "Corollary 6.4 and Corollary C.6 (corrected: of BN(WX), not of WX)", assumes=NORMALIZED)
def haar_gap_bound(spectrum: Spectrum) -> Scalar:
    r"""Upper bound on the mean isometry gap after one layer; `expected_haar_gap` is its exact value.

    $$ \mathbb E\,\psi(\mathrm{BN}(WX)) \le \psi(X) + \log\Big(1 - \frac{\sum_k(\lambda_k-1)^2}{2d^2(d+2)}\Big) $$

    Near isometry the decrease is $1/(2d)$ of the true one.
    """
    return spectral_isometry_gap(spectrum) - haar_isometry_gain(spectrum).log()


@source("orthoscope", "Corollary 6.4 of joudaki2024, sharpened", assumes=NORMALIZED)
def haar_variance_gap_bound(spectrum: Spectrum) -> Scalar:
    r"""Upper bound on the mean isometry gap after one layer, about three times the decrease of `haar_gap_bound`.

    $$ \mathbb E\,\psi(\mathrm{BN}(WX)) \le \psi(X) - \frac{3}{(2d+1)(d+2)} \cdot \frac1d\sum_k(\lambda_k-1)^2 $$

    From $\log(1+y) \le y - 3y^2/(6+4y)$ at $y = \sum_k (\lambda_k-1) w_k^2 \le d-1$, where $\mathbb E y = 0$ and
    $\mathbb E y^2 = 2\sum_k(\lambda_k-1)^2/(d(d+2))$. For $d \ge 2$ it implies (C.48), which the thesis reaches by
    replacing $d(d+2)$ by $d^2$.
    """
    eigenvalues = _normalized(spectrum)
    width = eigenvalues.shape[-1]
    variance = (eigenvalues - 1).square().mean(-1)
    return spectral_isometry_gap(spectrum) - 3 * variance / ((2 * width + 1) * (width + 2))


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


@source("joudaki2024", "Lemma C.9", assumes=NORMALIZED)
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

    The first layer, whose input may not be normalized, is not counted: it cannot raise the gap.
    """
    if depth < 0:
        raise ValueError(f"depth is 0 or more layers, got {depth}")
    return initial_gap.double() * torch.exp(-depth / gap_decay_depth(width, initial_gap))


@source("joudaki2024", "Lemma C.16", assumes="square, non-degenerate input of batch norm without centering or epsilon")
def batch_norm_jacobian_bound(spectrum: Spectrum) -> Scalar:
    r"""$\|J_{\mathrm{BN}}(X)\| = 1/\min_j\|X_j\| \le 1/\sqrt{\min_k \lambda_k}$; equality for a diagonal $XX^\top$."""
    if not bool((spectrum > 0).all()):
        raise ValueError("a spectrum is the eigenvalues of XX', all positive: dependent samples have no bound")
    return spectrum.double().amin(-1).rsqrt()


@source("joudaki2024", "Lemma C.17", assumes=_SQUARE)
def smallest_eigenvalue_bound(width: int, gap: Scalar) -> Scalar:
    r"""Lower bound on the smallest eigenvalue of a trace-normalized Gram with isometry gap $\psi$.

    $$ \lambda_d \ge e^{-2\sqrt{d\psi}} \text{ if } \psi \le \tfrac1{16d},
       \qquad \lambda_d \ge e^{-(d\psi+1)} \text{ otherwise} $$
    """
    return torch.exp(-batch_norm_log_jacobian_bound(width, gap))


@source("joudaki2024", "Lemma C.13 (corrected: needs tr XX' equal to the width)", assumes=_SQUARE)
def batch_norm_log_jacobian_bound(width: int, gap: Scalar) -> Scalar:
    r"""Upper bound on $\log\|J_{\mathrm{BN}}(X)\|$ from the isometry gap of $X$.

    $$ \log\|J_{\mathrm{BN}}(X)\| \le 2\sqrt{d\psi} \text{ if } \psi \le \tfrac1{16d},
       \qquad \le d\psi + 1 \text{ otherwise} $$

    Half of it holds too, because $\log\|J\| \le -\frac12\log\lambda_d$ (Lemmas C.16 and C.17).
    """
    _refuse_gap(gap)
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


def _normalized(spectrum: Spectrum) -> Spectrum:
    """The eigenvalues in float64, if they can be those of batch-normalized samples."""
    eigenvalues = spectrum.double()
    width = eigenvalues.shape[-1]
    if width < 1 or not bool((eigenvalues > 0).all()):
        raise ValueError("a spectrum is the eigenvalues of XX', all positive: dependent samples have an infinite gap")
    tolerance = width * torch.finfo(spectrum.dtype).eps ** 0.5
    off = float((eigenvalues.sum(-1) - width).abs().max())
    if off > tolerance:
        raise ValueError(f"after batch norm {width} eigenvalues add up to {width}, got a sum off by {off:.3g}: rescale")
    return eigenvalues


def _refuse_gap(gap: Scalar) -> None:
    if not bool((gap >= 0).all()):
        raise ValueError(f"an isometry gap is 0 or more, got {float(gap.min()):.4g}")
