"""Curves of constant speed on the frames, followed for unit time, by exponentials of 2k x 2k matrices."""

import torch
from torch import Tensor

from orthoscope.linalg.products import skew_part


def euclidean_geodesic(x: Tensor, v: Tensor) -> Tensor:
    r"""End of the geodesic of the Euclidean metric from $x$ with velocity $v$ (Edelman, Arias and Smith, 1998).

    $$ \exp_x(v) = \begin{pmatrix} x & v \end{pmatrix}
       \exp\begin{pmatrix} \Omega & -v^\mathsf{H}v \\ I & \Omega \end{pmatrix}
       \begin{pmatrix} e^{-\Omega} \\ 0 \end{pmatrix}, \qquad \Omega = x^\mathsf{H}v $$
    """
    overlap = x.mH @ v
    omega = skew_part(overlap)
    # What rounding put beside the tangent space would leave the manifold with the flow.
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
