"""The reflections of a frame that is a product of few of them."""

import torch
from jaxtyping import Float
from torch import Tensor


def few_reflections(
    frame: Float[Tensor, "*batch rows columns"],
    vectors: Float[Tensor, "*batch rows columns"],
    signs: Float[Tensor, "*batch columns"],
    count: int,
    tolerance: float,
) -> tuple[Float[Tensor, "*batch rows count"], Float[Tensor, "*batch columns"]]:
    r"""`count` vectors and the signs $D$ with $F = H_1\cdots H_m E D$, given the shortest vectors for all columns.

    The signs matter. $e - \sigma f$ reflects a column $f$ to $\sigma e$ for either sign, but the two reflections
    differ by one more: with the wrong sign, what is left of $m$ reflections are $m$ again instead of $m - 1$.
    """
    # A vector e flips a sign, no more: leave it out and flip the sign instead.
    columns = frame.shape[-1]
    kept = torch.arange(columns, device=frame.device) < count
    short = vectors[..., :count], torch.where(kept, signs, -signs)
    excess = vectors[..., count:].abs().amax((-2, -1))
    if bool((excess <= tolerance).all()):
        return short
    long_vectors, long_signs, residual = _peel(frame, count, _signs_by_rank(frame, count, tolerance))
    if not bool((torch.minimum(excess, residual) <= tolerance).all()):
        used = (vectors.abs().amax(-2) > tolerance).reshape(-1, columns).any(0)
        needed = int(used.nonzero().max()) + 1
        remedy = "as many as columns are needed, pass num_reflections=None"
        raise ValueError(
            f"the frame is not a product of {count} reflections and signs: "
            + (f"{needed} are enough, pass num_reflections={needed}" if needed < columns else remedy)
        )
    first = excess <= residual
    return torch.where(first[..., None, None], short[0], long_vectors), torch.where(
        first[..., None], short[1], long_signs
    )


def _signs_by_rank(
    frame: Float[Tensor, "*batch rows columns"], count: int, tolerance: float
) -> Float[Tensor, "*batch columns"]:
    r"""The signs that make $ED - F$ of rank $m$, or 0 where the rank does not tell.

    Outside the diagonal $ED - F$ is $-F$ whatever the signs. So if $F_{BA}$, for disjoint rows $B$ and columns $A$,
    has rank $m$ already, its null space $N$ is that of all of $(ED - F)_{\cdot A}$, and $D_A N = F_{AA} N$.
    """
    rows, columns = frame.shape[-2:]
    known = torch.zeros_like(frame[..., 0, :])
    if 2 * count >= rows:
        return known
    size = max(count + 1, (columns + 1) // 2)
    for start in (0, columns - size):
        part = slice(start, start + size)
        outside = torch.cat([frame[..., :start, part], frame[..., start + size :, part]], -2)
        span = torch.linalg.svd(outside, full_matrices=False).Vh[..., :count, :]
        inside = frame[..., part, part]
        told = (inside - inside @ span.mT @ span).diagonal(dim1=-2, dim2=-1)
        known[..., part] = torch.where(told.abs() > tolerance, told.sign(), known[..., part])
    return known


def _peel(
    frame: Float[Tensor, "*batch rows columns"], count: int, known: Float[Tensor, "*batch columns"]
) -> tuple[
    Float[Tensor, "*batch rows count"],
    Float[Tensor, "*batch columns"],
    Float[Tensor, "*batch"],
]:
    r"""Reflect column after column to $\sigma e$: vectors, signs, and how far the rest is from signed unit vectors.

    $$ \sigma f = e - 2v/\|v\|^2, \qquad v = \bigl(1, -\sigma f_{>i}/(1 - \sigma f_i)\bigr) $$

    Where the sign is not `known` it is the sign of $f_i$, which takes the longer of the two vectors.
    """
    rest, signs = frame.clone(), torch.ones_like(known)
    vectors = torch.zeros_like(frame[..., :count])
    vectors.diagonal(dim1=-2, dim2=-1).fill_(1)
    for i in range(count):
        head, below = rest[..., i, i], rest[..., i + 1 :, i]
        own, square = torch.where(head < 0, -1.0, 1.0), below.square().sum(-1)
        sign = torch.where(known[..., i] == 0, own, known[..., i])
        # No reflection maps e to itself: a column that is finished is reflected to its negative.
        sign = torch.where(square <= torch.finfo(frame.dtype).eps ** 2, -own, sign)
        # 1 - |f_i| would cancel.
        gap = torch.where(sign == own, square / (1 + head.abs()), 1 + head.abs())
        vectors[..., i + 1 :, i], signs[..., i] = -(sign / gap)[..., None] * below, sign
        v = vectors[..., i:, i : i + 1]
        rest[..., i:, :] -= v @ (v.mT @ rest[..., i:, :]) * (2 / v.square().sum(-2, keepdim=True))
    tail = rest[..., count:]
    diagonal = tail.diagonal(offset=-count, dim1=-2, dim2=-1)
    signs[..., count:] = torch.where(diagonal < 0, -1.0, 1.0)
    diagonal.zero_()
    return vectors.tril(-1), signs, tail.abs().amax((-2, -1))
