"""Maps from tangent vectors to frames: retractions, which agree with x + v to first order, and geodesics."""

from collections.abc import Callable

import torch
from torch import Tensor

from orthoscope.linalg.polar import nearest_frame
from orthoscope.linalg.products import skew_part


def polar_retraction(x: Tensor, v: Tensor) -> Tensor:
    r"""The frame nearest to $x + v$, $(x+v)(I + v^\mathsf{H}v)^{-1/2}$: the Euclidean geodesic to second order."""
    return nearest_frame(x + v)


def qr_retraction(x: Tensor, v: Tensor) -> Tensor:
    r"""$Q$ of $x + v = QR$ with $R_{ii} > 0$; without the signs it would be discontinuous, and not map 0 to $x$."""
    q, r = torch.linalg.qr(x + v)
    diagonal = r.diagonal(dim1=-2, dim2=-1)
    # A zero has no sign and would erase a column. `sgn` is the phase of a complex number.
    phases = torch.where(diagonal == 0, 1, diagonal.sgn())
    return q * phases.unsqueeze(-2)


def cayley_retraction(x: Tensor, v: Tensor) -> Tensor:
    r"""$(I - \tfrac12A)^{-1}(I + \tfrac12A)\,x$ for the skew $A$ with $Ax = v$ (Wen and Yin, 2013), by a k x k system.

    $$ A = x\Omega x^\mathsf{H} + v_\perp x^\mathsf{H} - x v_\perp^\mathsf{H}, \quad \Omega = x^\mathsf{H}v, \quad
       v_\perp = v - x\Omega, \qquad P = \left(I - \tfrac12\Omega + \tfrac14 v_\perp^\mathsf{H}v_\perp\right)^{-1} $$
    $$ R(x, v) = x(2P - I) + v_\perp P $$

    $2(I-\tfrac12A)^{-1}x = 2xP + v_\perp P$, because $A$ maps $x \mapsto x\Omega + v_\perp$ and
    $v_\perp \mapsto -x\,v_\perp^\mathsf{H}v_\perp$. Agrees with the canonical geodesic to second order. In double
    precision, because a long step loses $\|v\|^2$ roundings.
    """
    dtype, double = x.dtype, torch.promote_types(x.dtype, torch.float64)
    x, v = x.to(double), v.to(double)
    overlap = x.mH @ v
    normal = v - x @ overlap
    # Skew but for the rounding of v; made exactly so, long steps stay orthonormal.
    omega = skew_part(overlap)
    system = normal.mH @ normal / 4 - omega / 2
    system = system + torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    inverse = torch.linalg.inv_ex(system).inverse
    return (x @ (2 * inverse) - x + normal @ inverse).to(dtype)


RETRACTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "polar": polar_retraction,
    "qr": qr_retraction,
    "cayley": cayley_retraction,
}


def euclidean_geodesic(x: Tensor, v: Tensor) -> Tensor:
    r"""End of the geodesic of the Euclidean metric from $x$ with velocity $v$ (Edelman, Arias and Smith, 1998).

    $$ \exp_x(v) = \begin{pmatrix} x & v \end{pmatrix}
       \exp\begin{pmatrix} \Omega & -v^\mathsf{H}v \\ I & \Omega \end{pmatrix}
       \begin{pmatrix} e^{-\Omega} \\ 0 \end{pmatrix}, \qquad \Omega = x^\mathsf{H}v $$
    """
    overlap = x.mH @ v
    omega = skew_part(overlap)
    # Rounding errors normal to the tangent space would leave the manifold.
    return _flow(x, v - x @ (overlap - omega), omega, omega) @ torch.linalg.matrix_exp(-omega)


def canonical_geodesic(x: Tensor, v: Tensor) -> Tensor:
    r"""End of the geodesic of the canonical metric: $e^Ax$ for the skew $A$ with $Ax = v$ of the Cayley retraction.

    $$ \exp_x(v) = \begin{pmatrix} x & v_\perp \end{pmatrix}
       \exp\begin{pmatrix} \Omega & -v_\perp^\mathsf{H}v_\perp \\ I & 0 \end{pmatrix}
       \begin{pmatrix} I \\ 0 \end{pmatrix}, \qquad \Omega = x^\mathsf{H}v, \quad v_\perp = v - x\Omega $$

    Without a QR of $v_\perp$, whose $Q$ is arbitrary, and need not be orthogonal to $x$, where the rank is deficient.
    """
    overlap = x.mH @ v
    omega = skew_part(overlap)
    return _flow(x, v - x @ overlap, omega, torch.zeros_like(omega))


def _flow(x: Tensor, w: Tensor, first: Tensor, last: Tensor) -> Tensor:
    r"""The same for every $s > 0$; $s = \|w\|$ balances the corners, which keeps long steps accurate.

    $$ (x\ \ w/s)\exp\begin{pmatrix} F & -w^\mathsf{H}w/s \\ sI & L \end{pmatrix}\begin{pmatrix} I \\ 0 \end{pmatrix} $$
    """
    size = torch.linalg.matrix_norm(w)[..., None, None]
    size = torch.where(size == 0, 1, size)
    columns = x.shape[-1]
    identity = torch.eye(columns, dtype=x.dtype, device=x.device).expand_as(first)
    upper = torch.cat([first, -(w.mH @ w) / size], dim=-1)
    lower = torch.cat([size * identity, last], dim=-1)
    propagator = torch.linalg.matrix_exp(torch.cat([upper, lower], dim=-2))[..., :columns]
    return torch.cat([x, w / size], dim=-1) @ propagator
