"""Checks of the arguments of simulations; each error names the argument, what was given and what to give."""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from orthoscope.chains.chain import Chain, Normalization

# A list, a range, or integers of numpy or torch.
WholeNumbers: TypeAlias = Sequence[int] | Tensor | NDArray[numpy.integer[Any]]


def check_chain(chain: object) -> None:
    """Raise TypeError if `chain` is no Chain."""
    if not isinstance(chain, Chain):
        raise TypeError(f"chain is {chain!r}: describe the layers by a Chain, such as Chain(64, activation='relu')")


def check_record(record: object) -> None:
    """Raise TypeError if `record` is not a mapping from names to functions."""
    example = "such as {'gap': metrics.orthogonality_gap}"
    if not isinstance(record, Mapping):
        raise TypeError(f"record is {record!r}: give functions by name, {example}")
    for name, metric in record.items():
        if not callable(metric):
            raise TypeError(f"record has {metric!r} for {name!r}: give functions by name, {example}")


def checked_seeds(seeds: object) -> list[int]:
    """Return the seeds as a nonempty list of integers."""
    found = _whole_numbers("seeds", seeds, "give one seed for every network, such as range(10)")
    if not found:
        raise ValueError("seeds is empty: give one seed for every network")
    return found


def checked_starts(
    start: object, seeds: Sequence[int], norm: Normalization | None = None
) -> Float[Tensor, "seeds samples units"]:
    """Return one batch for every seed, in float64, whose squares do not overflow or underflow in the norm."""
    if not isinstance(start, Tensor):
        kind = type(start).__name__
        raise TypeError(f"start is of type {kind}: give a tensor, torch.as_tensor(start, dtype=torch.float64)")
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
    exact = start.detach().double()
    if norm is not None:
        _check_squares(exact, norm)
    return exact.expand(len(seeds), *start.shape[-2:])


def checked_depth(depth: object, least: int = 0) -> int:
    """Return the depth as an integer of at least `least`."""
    found = whole_number("depth", depth)
    if found < least:
        raise ValueError(f"depth is {found}: give at least {least}")
    return found


def checked_layers(layers: object, depth: int, first: int = 0) -> list[int]:
    """Return the layers to record, all from `first` to `depth` by default."""
    if layers is None:
        return list(range(first, depth + 1))
    wanted = _distinct("layers", layers, f"give layers to record, such as [{first}, {depth}]", "layer")
    wrong = [layer for layer in wanted if not first <= layer <= depth]
    if wrong:
        raise ValueError(f"layers has {wrong[0]}, but the layers are {first} to {depth}")
    return wanted


def checked_ends(depths: object, layer: int) -> list[int]:
    """Return the depths at which networks end, none of them before the layer."""
    if layer < 1:
        raise ValueError(f"layer is {layer}: layers are numbered from 1")
    ends = _distinct("depths", depths, "give the depths of the networks, such as [10, 100]", "depth")
    if min(ends) < layer:
        raise ValueError(f"depths has {min(ends)}, but a network with layer {layer} has a depth of at least {layer}")
    return ends


def _distinct(name: str, given: object, remedy: str, each: str) -> list[int]:
    numbers = _whole_numbers(name, given, remedy)
    if not numbers or len(set(numbers)) < len(numbers):
        raise ValueError(f"{name} is empty or names a {each} twice: give each {each} once")
    return numbers


def whole_number(name: str, given: object) -> int:
    """Return any kind of integer, also of numpy or torch, as an int; floats are refused, whatever their value."""
    try:
        return operator.index(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"{name} is {given!r}: give a whole number") from None


def _whole_numbers(name: str, given: object, remedy: str) -> list[int]:
    try:
        found = list(given)  # type: ignore[call-overload]
    except TypeError:
        raise TypeError(f"{name} is {given!r}: {remedy}") from None
    numbers = []
    for number in found:
        try:
            numbers.append(operator.index(number))
        except TypeError:
            raise TypeError(f"{name} has {number!r}, which is not a whole number: {remedy}") from None
    return numbers


def _check_squares(start: Float[Tensor, "*seeds samples units"], norm: Normalization) -> None:
    """Raise ValueError if the squares of a batch or sample that the norm averages would overflow or underflow."""
    sizes = start.abs().amax((-2, -1) if norm.axis == -2 else -1)
    limits = torch.finfo(start.dtype)
    # With room for sums, and for entries that are smaller than the largest but not negligible. 0 is allowed.
    least, most = math.sqrt(limits.tiny / limits.eps), math.sqrt(limits.max * limits.eps)
    wrong = sizes[(sizes > most) | ((sizes < least) & (sizes > 0))]
    if len(wrong):
        raise ValueError(
            f"start has a batch or sample of size {float(wrong[0]):.3g}, whose squares float64 cannot hold: "
            f"rescale it to between {least:.0e} and {most:.0e}"
        )
