"""Matrices with orthonormal columns, as a Riemannian manifold."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from orthoscope.linalg.haar import haar
from orthoscope.linalg.polar import orthonormality_error, polar_factor
from orthoscope.linalg.precision import in_full_precision, to_double
from orthoscope.linalg.products import add_product_, plus_adjoint
from orthoscope.manifolds._retractions import RETRACTIONS, canonical_geodesic, euclidean_geodesic

# Tolerances in units of eps. The largest entry of |XᵀX - I| of a frame that was just retracted is 2 to 6 eps
# at n = 32 to 2048; eight times that still counts as a frame.
_ROUNDINGS = 64


@final
@dataclass(frozen=True)
class Stiefel:
    r"""Frames $\{X \in \mathbb{R}^{n \times k} : X^\top X = I\}$, with the Euclidean or the canonical metric.

    Frames are `(*batch, n, k)` with n >= k, real or complex (then $X^\mathsf{H}X = I$); a wide weight is passed
    transposed. Tangent vectors at $X$ are the $V$ with $X^\mathsf{H}V$ skew: $V = X\Omega + V_\perp$ with
    $\Omega = X^\mathsf{H}V$. The metrics weigh the rotation $\Omega$ within the span differently:

    $$ \langle U, V\rangle_\text{euclidean} = \operatorname{tr} U^\mathsf{H}V, \qquad
       \langle U, V\rangle_\text{canonical} = \operatorname{tr} U^\mathsf{H}(I - \tfrac12XX^\mathsf{H})V $$

    Nothing here forms an n x n matrix. Arguments are not checked for being frames or tangent, which costs
    as much as the answer: `contains` and `is_tangent` do it.

    Args:
        metric: "euclidean" or "canonical".
    """

    metric: str = "euclidean"

    def __post_init__(self) -> None:
        if self.metric not in ("euclidean", "canonical"):
            raise ValueError(
                f'the metrics of the Stiefel manifold are "euclidean" and "canonical", got {self.metric!r}'
            )

    def project(self, matrix: Tensor) -> Tensor:
        r"""The nearest frame, $UV^\mathsf{H}$ of $M = U\Sigma V^\mathsf{H}$; one of them, if $M$ lacks rank."""
        _check(matrix)
        return polar_factor(matrix)

    @in_full_precision
    def to_tangent(self, x: Tensor, v: Tensor) -> Tensor:
        r"""Orthogonal projection $V - X\,\tfrac12(X^\mathsf{H}V + V^\mathsf{H}X)$ onto the tangent space at $X$.

        The same for both metrics: in both, the normal space is $\{XS : S = S^\mathsf{H}\}$.
        """
        _check(x, v)
        return v - x @ plus_adjoint(x.mH @ v) / 2

    @in_full_precision
    def to_tangent_(self, x: Tensor, v: Tensor) -> Tensor:
        """`to_tangent` that overwrites `v`, for `(n, k)` and `(batch, n, k)`."""
        return add_product_(v, x, plus_adjoint(x.mH @ v), alpha=-0.5)

    @in_full_precision
    def riemannian_gradient(self, x: Tensor, gradient: Tensor) -> Tensor:
        r"""The tangent vector that represents the ambient gradient $G$ in this metric.

        $$ G - X\,\tfrac12(X^\mathsf{H}G + G^\mathsf{H}X) \ \text{(euclidean)}, \qquad
           G - XG^\mathsf{H}X \ \text{(canonical)} $$
        """
        _check(x, gradient)
        return gradient - x @ self.normal_coordinates(x.mH @ gradient)

    @in_full_precision
    def riemannian_gradient_(self, x: Tensor, gradient: Tensor) -> Tensor:
        """`riemannian_gradient` that overwrites `gradient`, for `(n, k)` and `(batch, n, k)`."""
        return add_product_(gradient, x, self.normal_coordinates(x.mH @ gradient), alpha=-1.0)

    def normal_coordinates(self, overlap: Tensor) -> Tensor:
        r"""$N$ of `riemannian_gradient` $= G - XN$, from $S = X^\mathsf{H}G$.

        $$ \tfrac12(S + S^\mathsf{H}) \ \text{(euclidean)}, \qquad S^\mathsf{H} \ \text{(canonical)} $$
        """
        return plus_adjoint(overlap).mul_(0.5) if self.metric == "euclidean" else overlap.mH

    @in_full_precision
    def retract(self, x: Tensor, v: Tensor, method: str = "polar") -> Tensor:
        r"""A frame that agrees with $X + V$ to first order: "polar", "qr" or "cayley".

        All are defined for tangent vectors of any length. "polar" is of second order in the Euclidean metric
        and "cayley" in the canonical one.
        """
        _check(x, v)
        if method not in RETRACTIONS:
            raise ValueError(f"retractions are {', '.join(RETRACTIONS)}, got {method!r}")
        return RETRACTIONS[method](x, v)

    @in_full_precision
    def exp(self, x: Tensor, v: Tensor) -> Tensor:
        """Where the geodesic that leaves `x` with velocity `v` is after unit time; in double precision."""
        _check(x, v)
        double = torch.promote_types(x.dtype, torch.float64)
        geodesic = euclidean_geodesic if self.metric == "euclidean" else canonical_geodesic
        return geodesic(x.to(double), v.to(double)).to(x.dtype)

    def transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        """`v`, tangent at `x`, as a tangent vector at `y`: by projection, which is linear but shortens vectors.

        Parallel transport has no closed form on this manifold. `x` is not used; it is where `v` came from.
        """
        _check(x, y, v)
        return self.to_tangent(y, v)

    @in_full_precision
    def inner(self, x: Tensor, u: Tensor, v: Tensor) -> Tensor:
        r"""$\langle U, V\rangle_X$ of the metric, of complex matrices the real part; the definition is above."""
        _check(x, u, v)
        total = _real_inner(u, v)
        return total if self.metric == "euclidean" else total - _real_inner(x.mH @ u, x.mH @ v) / 2

    def norm(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$\sqrt{\langle V, V\rangle_X}$."""
        return self.inner(x, v, v).sqrt()

    def sample(
        self,
        *shape: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """Independent frames `(*batch, n, k)`, uniform in the sense of Haar; real."""
        if len(shape) < 2 or shape[-2] < shape[-1]:
            raise ValueError(f"frames are (*batch, n, k) with n >= k, got {shape}")
        *batch, rows, columns = shape
        return haar(rows, columns, *batch, generator=generator, dtype=dtype, device=device)

    def degrees_of_freedom(self, n: int, k: int) -> int:
        r"""Dimension of the manifold of real frames, $nk - \tfrac12k(k+1)$: one equation for each pair of columns."""
        if not n >= k >= 1:
            raise ValueError(f"a frame has n >= k >= 1, got n = {n} and k = {k}")
        return n * k - k * (k + 1) // 2

    def distance_to(self, matrix: Tensor) -> Tensor:
        r"""Frobenius distance to the nearest frame, $(\sum_i (\sigma_i - 1)^2)^{1/2}$; in double precision."""
        _check(matrix)
        sigma = torch.linalg.svdvals(to_double(matrix))
        return torch.linalg.vector_norm(sigma - 1, dim=-1)

    def contains(self, matrix: Tensor, tolerance: float | None = None) -> Tensor:
        r"""Whether $\max |M^\mathsf{H}M - I|$ is at most `tolerance` (64 roundings), for each matrix of a batch."""
        _check(matrix)
        return orthonormality_error(matrix) <= _tolerance(matrix, tolerance)

    def is_tangent(self, x: Tensor, v: Tensor, tolerance: float | None = None) -> Tensor:
        r"""Whether $\max|X^\mathsf{H}V + V^\mathsf{H}X| \le$ `tolerance` (64 roundings) $\cdot \max_j \|v_j\|$."""
        _check(x, v)
        double = torch.promote_types(x.dtype, torch.float64)
        x_precise, v_precise = x.to(double), v.to(double)
        asymmetry = plus_adjoint(x_precise.mH @ v_precise).abs().amax((-2, -1))
        length = torch.linalg.vector_norm(v_precise, dim=-2).amax(-1)
        return asymmetry <= _tolerance(x, tolerance) * length


def _check(x: Tensor, *others: Tensor) -> None:
    if x.ndim < 2 or x.shape[-2] < x.shape[-1]:
        raise ValueError(f"frames are (*batch, n, k) with n >= k, got {tuple(x.shape)}; transpose a wide matrix")
    for tensor in (x, *others):
        if not (tensor.is_floating_point() or tensor.is_complex()):
            raise TypeError(f"frames are of a floating or complex type, got {tensor.dtype}")
        if tensor.shape[-2:] != x.shape[-2:]:
            raise ValueError(
                f"expected matrices of the shape of the frame, {tuple(x.shape)}, got {tuple(tensor.shape)}"
            )


def _tolerance(matrix: Tensor, tolerance: float | None) -> float:
    return _ROUNDINGS * torch.finfo(matrix.dtype).eps if tolerance is None else tolerance


def _real_inner(u: Tensor, v: Tensor) -> Tensor:
    product = u.conj() * v
    return (product.real if product.is_complex() else product).sum((-2, -1))
