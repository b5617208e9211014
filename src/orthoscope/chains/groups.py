"""Networks in groups: as many as fit a bounded memory, and one group a core where that pays."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import accumulate, pairwise
from typing import TypeVar

import torch

from orthoscope.linalg.parallel import balanced_over_cores, on_one_core

# Multiply-adds of a whole simulation from which a second core is worth being asked.
_WORTHWHILE = 1 << 26
# Multiply-adds of one layer of all networks from which it is worth the Python overhead: threads that simulate side by
# side wait for each other between any two operations. Measured on two cores: 2 to 3 times as long as on one at a
# tenth of this, about as long at 5 · 10⁵, three quarters at 7 · 10⁵.
_WORTHWHILE_LAYER = 9 << 16
# What one more network costs in a layer, however narrow, in multiply-adds: its calls of LAPACK take a microsecond.
_NETWORK = 1 << 10
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
    depth: int,
    most: int,
    device: torch.device,
) -> list[_Result]:
    """`function` of slices that cover all networks; one holds `numbers`, a `layer` at a time, for `multiplications`.

    A group holds at most `most` numbers, if one network does. On a CPU a layer of a group fits the cache, and there is
    a group for every core, which runs on one, if the work is enough; if that of a layer is not, all run on this one.
    """
    groups = min(networks, -(-networks * numbers // most))
    on_cpu, cores = device.type == "cpu", torch.get_num_threads()
    is_narrow = networks * (multiplications + _NETWORK) < _WORTHWHILE_LAYER
    if on_cpu and not is_narrow and networks * depth * multiplications > _WORTHWHILE:
        groups = max(groups, -(-networks * layer // _CACHED))
        groups = min(networks, -(-groups // cores) * cores)
    slices = _slices(networks, groups)
    if not on_cpu:
        return [function(group) for group in slices]
    if is_narrow:
        with on_one_core() if cores > 1 else nullcontext():
            return [function(group) for group in slices]
    # The longest stands for all: they differ by one network at most.
    cost = depth * multiplications * -(-networks // groups)
    return balanced_over_cores(function, slices, [cost] * groups)


def _slices(networks: int, groups: int) -> list[slice]:
    smaller, larger_ones = divmod(networks, groups)
    # The larger groups first: a core that took two of them would be the last to finish.
    ends = accumulate((smaller + (place < larger_ones) for place in range(groups)), initial=0)
    return [slice(begin, end) for begin, end in pairwise(ends)]
