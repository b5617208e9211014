"""The polar factor of a matrix that is nearly orthonormal, by products alone."""

import torch
from torch import Tensor

from orthoscope.linalg.gram_series import corrected, gram_excess
from orthoscope.linalg.polar import polar_factor

# Up to here four terms of the series leave at most 2% of the excess.
_NEAR = 0.5

# Up to here scaling and three rounds of products are cheaper than singular values.
_FAR = 8.0


def nearest_frame(frame: Tensor, out: Tensor | None = None) -> Tensor:
    r"""The polar factor of $Y$, $(n, k)$ or $(\text{batch}, n, k)$, at the price of the fewest products that suffice.

    $$ Y(Y^\mathsf{H}Y)^{-1/2} = Y(I+E)^{-1/2} = Y\left(I - \tfrac12E + \tfrac38E^2 - \tfrac5{16}E^3 +
       \tfrac{35}{128}E^4 - \dots\right), \qquad E = Y^\mathsf{H}Y - I $$

    The degree is the least of 1, 2 and 4 that leaves an error of one rounding. With $r$ the largest length
    of a row of $E$, degrees 1, 2 and 4 leave, entry by entry and to leading order,

    $$ |W^\mathsf{H}W - I| \le \tfrac34 r^2, \qquad \tfrac58 r^2 \|E\|, \qquad \tfrac{63}{128} r^2 \|E\|^3. $$

    Where degree 4 does not suffice it is applied and the excess is measured again; $\|E\| \ge \tfrac12$ is
    first scaled down, and what is still farther away goes through singular values. The excess is measured
    from $Y$ itself, so roundings of earlier calls do not add up. A matrix that is not finite gives nan and
    does not touch its neighbours in the batch. `out` must not share memory with `frame`.
    """
    return _nearest(frame, out, scalable=True)


def _nearest(frame: Tensor, out: Tensor | None, scalable: bool) -> Tensor:
    if frame.numel() == 0:
        return frame.clone() if out is None else out
    rounding = torch.finfo(frame.dtype).eps
    excess = gram_excess(frame)
    rows = torch.linalg.vector_norm(excess.detach(), dim=-1)
    # The largest over the batch; comparisons with nan are false, and nan goes the long way.
    row, norm = float(rows.max()), float(torch.linalg.vector_norm(rows, dim=-1).max())
    if norm < _NEAR:
        for degree, remainder in ((1, 3 / 4), (2, 5 / 8 * norm), (4, 63 / 128 * norm**3)):
            if remainder * row**2 <= rounding:
                return corrected(frame, excess, degree, out)
        return _nearest(corrected(frame, excess, 4), out, scalable)
    return _from_afar(frame, excess, out, scalable)


def _from_afar(frame: Tensor, excess: Tensor, out: Tensor | None, scalable: bool) -> Tensor:
    r"""Scaling puts the eigenvalues of $Y^\mathsf{H}Y$, in $[1, 1 + \rho]$ after a tangent step, around 1."""
    # ‖E‖⁴ ≤ ‖E²‖²_F is closer than the Frobenius norm by a fourth root of the size.
    norms = torch.linalg.matrix_norm(excess.detach() @ excess.detach()).sqrt()
    far = ~(norms < (_FAR if scalable else _NEAR))
    if bool(far.any()):
        out = torch.empty_like(frame) if out is None else out
        if frame.ndim == 2:
            return out.copy_(polar_factor(frame))
        out[far] = polar_factor(frame[far])
        if not bool(far.all()):
            out[~far] = _nearest(frame[~far], None, scalable)
        return out
    scale = torch.where(norms < _NEAR, 1, (1 + norms / 2).rsqrt())[..., None, None]
    return _nearest(corrected(frame * scale, gram_excess(frame * scale), 4), out, scalable=False)
