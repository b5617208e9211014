"""Networks in groups: as many as fit a bounded memory, and one group a core where that pays."""

from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

import torch

from orthoscope.linalg.parallel import balanced_over_cores

# Multiply-adds of a whole simulation from which a second core is worth its Python overhead.
_WORTHWHILE = 1 << 26

_Result = TypeVar("_Result")


def over_groups(
    function: Callable[[slice], _Result],
    networks: int,
    *,
    numbers: int,
    multiplications: int,
    most: int,
    device: torch.device,
) -> list[_Result]:
    """`function` of slices that cover all networks, each of which holds `numbers` and costs `multiplications`.

    A group holds at most `most` numbers, if one network does. On a CPU there is a group for every core, and each
    runs on one, if the work is enough.
    """
    groups = min(networks, -(-networks * numbers // most))
    if device.type == "cpu" and networks * multiplications > _WORTHWHILE:
        groups = max(groups, min(networks, torch.get_num_threads()))
    ends = [networks * i // groups for i in range(groups + 1)]
    slices = [slice(begin, end) for begin, end in pairwise(ends)]
    if device.type != "cpu":
        return [function(group) for group in slices]
    # The longest stands for all: they differ by one network at most.
    cost = multiplications * -(-networks // groups)
    return balanced_over_cores(function, slices, [cost] * groups)
