"""What simulations accept, and one sentence for what they do not."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor


def checked_starts(start: Tensor, seeds: Sequence[int]) -> Float[Tensor, "seeds samples units"]:
    """One batch for every seed, in float64."""
    if not len(seeds):
        raise ValueError("seeds is empty: give one seed for every network")
    if start.ndim not in (2, 3) or 0 in start.shape:
        raise ValueError(
            f"start has shape {tuple(start.shape)}: give (samples, units), or (seeds, samples, units), none of them 0"
        )
    if not start.dtype.is_floating_point:
        raise ValueError(f"start is of type {start.dtype}: give real numbers, start.double()")
    if start.ndim == 3 and start.shape[0] != len(seeds):
        raise ValueError(
            f"start holds {start.shape[0]} batches for {len(seeds)} seeds: give one for each, or one for all"
        )
    if not bool(start.isfinite().all()):
        raise ValueError("start has entries that are not finite: give real numbers")
    return start.detach().double().expand(len(seeds), *start.shape[-2:])


def checked_layers(layers: Sequence[int] | None, depth: int, first: int = 0) -> list[int]:
    """The layers to record, all from `first` to `depth` by default."""
    if depth < first:
        raise ValueError(f"depth is {depth}: give at least {first}")
    wanted = list(range(first, depth + 1)) if layers is None else [int(layer) for layer in layers]
    wrong = [layer for layer in wanted if not first <= layer <= depth]
    if wrong:
        raise ValueError(f"layers has {wrong[0]}, but the layers are {first} to {depth}")
    if not wanted or len(set(wanted)) < len(wanted):
        raise ValueError("layers is empty or names a layer twice: give each layer to record once")
    return wanted
