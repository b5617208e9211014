"""A product of reflections and its gradient, a panel of columns at a time, in matrix products."""

import torch
from jaxtyping import Float
from torch import Tensor

# Reflections handled at once. Wider panels waste work on triangles, narrower ones are slower per multiplication;
# of 64 to 256, this was within about a tenth of the fastest from 256 x 256 to 2048 x 2048.
PANEL = 128


def unit_trapezoid(vectors: Float[Tensor, "*batch rows reflections"]) -> Float[Tensor, "*batch rows reflections"]:
    """The strictly lower part with ones on the diagonal: column i starts with i zeros and a one, so none is zero."""
    trapezoid = vectors.tril(-1)
    trapezoid.diagonal(dim1=-2, dim2=-1).fill_(1)
    return trapezoid


def frame_by_panels(
    vectors: Float[Tensor, "batch rows reflections"], columns: int, width: int
) -> tuple[
    Float[Tensor, "batch rows columns"],
    Float[Tensor, "batch reflections columns"],
    Float[Tensor, "batch reflections width"],
]:
    r"""First columns of $H_1 \cdots H_m$, from the last panel to the first, with what the gradient needs again.

    A panel $V_p$ of reflections is $I - V_p T_p V_p^\top$ with $T_p = S_p^{-1}$,
    $S_p = \operatorname{striu}(V_p^\top V_p) + \tfrac12\operatorname{diag}(V_p^\top V_p)$:

    $$ Q \leftarrow E, \qquad M_p = T_p V_p^\top Q, \qquad Q \leftarrow Q - V_p M_p $$

    so that in the end $Q = E - VM$, where $V$ is lower and $M$ upper trapezoidal. Panel $p$, which starts at
    column $s$, changes rows and columns from $s$ on. Returned are $Q$, $M$ (unset below its panels'
    diagonal) and the $T_p$ under one another.
    """
    v = unit_trapezoid(vectors)
    batch, rows, count = v.shape
    q = v.new_zeros(batch, rows, columns)
    q.diagonal(dim1=-2, dim2=-1).fill_(1)
    m = v.new_empty(batch, count, columns)
    inverses = v.new_zeros(batch, count, min(width, count))
    for start in reversed(range(0, count, width)):
        stop = min(start + width, count)
        panel, size = v[:, start:, start:stop], stop - start
        inverse = inverses[:, start:stop, :size]
        inverse.copy_(_inverse_factor(panel))
        m_panel = m[:, start:stop, start:]
        if stop == count:  # Q is still E
            m_panel.baddbmm_(inverse, panel[:, : columns - start].mT, beta=0)
        else:  # Q is still E in the rows and columns of this panel
            m_panel[:, :, :size].baddbmm_(inverse, panel[:, :size].mT, beta=0)
            m_panel[:, :, size:].baddbmm_(inverse, panel[:, size:].mT @ q[:, stop:, stop:], beta=0)
        q[:, start:, start:].baddbmm_(panel, m_panel, alpha=-1)
    return q, m, inverses


def _inverse_factor(panel: Float[Tensor, "batch rows size"]) -> Float[Tensor, "batch size size"]:
    r"""$T = (\operatorname{striu}(V^\top V) + \tfrac12\operatorname{diag}(V^\top V))^{-1}$.

    In float64: for nearly parallel vectors either step in float32 costs two digits of orthonormality, so none.
    """
    precise = panel.double()
    factor = (precise.mT @ precise).triu_()
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    # A length that overflows in the panel's type would make its reflection vanish; inf * 0 makes it nan instead.
    diagonal.copy_(diagonal / 2 + diagonal.to(panel.dtype) * 0)
    identity = torch.eye(panel.shape[-1], dtype=factor.dtype, device=panel.device)
    # From the right, which libraries do faster.
    return torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=True, left=False).to(panel.dtype)


def gradient_by_panels(
    frame_gradient: Float[Tensor, "batch rows columns"],
    vectors: Float[Tensor, "batch rows reflections"],
    m: Float[Tensor, "batch reflections columns"],
    inverses: Float[Tensor, "batch reflections width"],
) -> Float[Tensor, "batch rows reflections"]:
    r"""Gradient for the strictly lower part of `vectors`, from the first panel to the last.

    $$ Z_p = T_p^\top V_p^\top G_p, \quad G_{p+1} = G_p - V_p Z_p, \quad
       R = \operatorname{triu}(ZM^\top) + \operatorname{striu}(ZM^\top)^\top, \quad
       dV = \operatorname{stril}\Bigl(VR - GM^\top - \begin{bmatrix} Z^\top \\ 0 \end{bmatrix}\Bigr) $$

    With $V$ lower and $M$ upper trapezoidal, $dV$ needs only the upper part of $Z$ and every product only
    what is not known to be zero, up to whole panels.
    """
    v, g = unit_trapezoid(vectors), frame_gradient
    rows, count = v.shape[-2:]
    columns, width = m.shape[-1], max(1, inverses.shape[-1])
    remaining, z = g.clone() if count > width else g, torch.empty_like(m)
    r, dv = v.new_empty(v.shape[0], count, count), torch.empty_like(v)
    for start in range(0, count, width):
        stop = min(start + width, count)
        panel, size = v[:, start:, start:stop], stop - start
        z_panel, m_panel = z[:, start:stop, start:], m[:, start:stop, start:]
        z_panel.baddbmm_(inverses[:, start:stop, :size].mT, panel.mT @ remaining[:, start:, start:], beta=0)
        if stop < count:
            remaining[:, stop:, stop:].baddbmm_(panel[:, size:], z_panel[:, :, size:], alpha=-1)
        _fill_symmetric(r, z[:, :stop, start:] @ m_panel.mT, start)
        dv_panel = dv[:, start:, start:stop]
        dv_panel[:, : columns - start] = z_panel.mT
        if columns < rows:
            dv_panel[:, columns - start :] = 0
        dv_panel.baddbmm_(g[:, start:, start:], m_panel.mT, beta=-1, alpha=-1)
    for start in range(0, count, width):
        reach = min(start + width, count)
        stop = reach if reach < count else rows
        dv[:, start:stop, :reach].baddbmm_(v[:, start:stop, :reach], r[:, :reach, :reach])
    return dv.tril_(-1)


def _fill_symmetric(
    target: Float[Tensor, "batch size size"], block: Float[Tensor, "batch stop width"], start: int
) -> None:
    """Write a panel of columns down to the diagonal into a symmetric matrix, and its mirror image."""
    stop = block.shape[-2]
    above, corner = block[:, :start], block[:, start:]
    if start:
        target[:, :start, start:stop] = above
        target[:, start:stop, :start] = above.mT
    target[:, start:stop, start:stop] = corner.triu() + corner.triu(1).mT
