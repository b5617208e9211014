"""What simulations accept, and one sentence for what they do not."""

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from torch import Tensor

from orthoscope.chains.chain import Chain


def check_kinds(chain: object, seeds: object, record: object = None) -> None:
    """Refuse what is not of the kind that it should be, which would be found out much later and less clearly."""
    if not isinstance(chain, Chain):
        raise TypeError(f"chain is {chain!r}: describe the layers by a Chain, such as Chain(64, activation='relu')")
    if not hasattr(seeds, "__len__"):
        raise TypeError(f"seeds is {seeds!r}: give one seed for every network, such as range(10)")
    if record is not None and not isinstance(record, Mapping):
        raise TypeError(f"record is {record!r}: give functions by name, such as {{'gap': metrics.orthogonality_gap}}")


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
