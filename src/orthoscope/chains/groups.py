"""Networks in groups: as many as fit a bounded memory, and one group a core where that pays."""

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import TypeVar

import torch

from orthoscope.linalg.parallel import balanced_over_cores

# Multiply-adds of a whole simulation from which a second core is worth its Python overhead.
_WORTHWHILE = 1 << 26
# Numbers of one layer of a group that stay in a core's cache: a megabyte, or thirteen networks of width and batch 100.
# Each of them takes 1.2 times as long if only five share the cost of every call, and up to twice as long with twenty.
_CACHED = 1 << 17

_Result = TypeVar("_Result")


def over_groups(
    function: Callable[[slice], _Result],
    networks: int,
    *,
    numbers: int,
    layer: int,
    multiplications: int,
    most: int,
    device: torch.device,
) -> list[_Result]:
    """`function` of slices that cover all networks; one holds `numbers`, a `layer` at a time, for `multiplications`.

    A group holds at most `most` numbers, if one network does. On a CPU a layer of a group fits the cache, and there is
    a group for every core, which runs on one, if the work is enough.
    """
    groups = min(networks, -(-networks * numbers // most))
    if device.type == "cpu" and networks * multiplications > _WORTHWHILE:
        cores = torch.get_num_threads()
        groups = max(groups, -(-networks * layer // _CACHED))
        groups = min(networks, -(-groups // cores) * cores)
    smaller, larger_ones = divmod(networks, groups)
    # The larger groups first: a core that took two of them would be the last to finish.
    ends = accumulate((smaller + (place < larger_ones) for place in range(groups)), initial=0)
    slices = [slice(begin, end) for begin, end in pairwise(ends)]
    if device.type != "cpu":
        return [function(group) for group in slices]
    # The longest stands for all: they differ by one network at most.
    cost = multiplications * -(-networks // groups)
    return balanced_over_cores(function, slices, [cost] * groups)
