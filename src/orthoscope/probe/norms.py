"""Norms of gradients: of one tensor in any precision, and of one whose parts, or shards, lie on several ranks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from orthoscope.probe.ranks import Ranks
from orthoscope.probe.sharded import is_shard, replicas, shard


def norm(gradient: Tensor) -> float:
    """Frobenius norm; in float64 outside a safe range, for in float32 the square of 1e-23 is 0 and of 1e20 infinite."""
    gradient = getattr(gradient, "full_tensor", lambda: gradient)()  # a sharded DTensor's norm is of the whole
    gradient = gradient.detach()
    if gradient.is_sparse:
        gradient = gradient.coalesce().values()
    quick = float(torch.linalg.vector_norm(gradient))
    if 1e-9 < quick < 1e15 and gradient.element_size() >= 4:
        return quick
    if quick == 0 and not bool(gradient.any()):
        return 0.0
    wide = torch.complex128 if gradient.is_complex() else torch.float64
    return float(torch.linalg.vector_norm(gradient.cpu().to(wide)))


def weight_norms(gradients: Sequence[Tensor], ranks: Ranks) -> list[float]:
    r"""Of what a backward pass left on every rank.

    FSDP leaves shards $\bar g_s$ of the average over $R$ ranks, each on $k$ of them, so $\|g\| = R\sqrt{\sum_r
    \|\bar g_{s(r)}\|^2/k}$. Any other gradient is a rank's own: they are added up, in place.
    """
    if ranks.alone:
        return [norm(gradient) for gradient in gradients]
    shards = [norm(shard(g)) * ranks.size / replicas(g) ** 0.5 if is_shard(g) else -1.0 for g in gradients]
    return [
        joined if is_shard(g) else norm(ranks.sum_((g.to_dense() if g.is_sparse else g).contiguous()))
        for g, joined in zip(gradients, ranks.norm(shards), strict=True)
    ]
