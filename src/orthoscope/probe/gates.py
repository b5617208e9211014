"""Zero-initialized gates: what the gradients behind them are after the gates' first step.

The last scale of a residual block, LayerScale, or an output layer that starts at zero passes no gradient on, by design:
the first step of training opens it. Whether it does is not inferred from names: the step is taken, and taken back.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from torch import nn

from orthoscope.findings import Status
from orthoscope.probe.layers import Layer
from orthoscope.probe.parameters import ParameterTable, floating_parameters
from orthoscope.probe.restore import unguarded

_STEP = 1e-3  # the first step of Adam at a common learning rate: 1e-3 times the sign of the gradient
_OPENS = 4.0  # factor by which a gradient grows with the gates: it was behind one

# Energy around the mean, relative to all energy, below which samples are equal to float32.
_EQUAL = 1e-12


def behind_gates(table: ParameterTable) -> frozenset[str]:
    """Names of the modules whose matrices get no gradient, or a tiny one, until the gates have taken a step.

    Where there is a live gate and no step was taken, as with a batch split over processes, modules without a gradient.
    """
    found = []
    unseen = bool(table.live_gates) and all(row.opened_norm is None for row in table.rows)
    for module in table.owners:
        matrices = [row for row in table.of(module) if row.trainable and len(row.shape) >= 2]
        before = max((row.gradient_norm or 0.0 for row in matrices), default=0.0)
        after = max((row.opened_norm or 0.0 for row in matrices), default=0.0)
        reached = any(row.gradient_norm is not None for row in matrices)
        if after > _OPENS * before or (unseen and reached and before == 0):
            found.append(module)
    return frozenset(found)


def worth_opening(table: ParameterTable) -> bool:
    """Whether there are live gates that may hold back a gradient: one is zero, or a gate is tiny."""
    gates = table.live_gates
    starved = any(row.trainable and len(row.shape) >= 2 and row.gradient_norm == 0 for row in table.rows)
    return bool(gates) and (starved or any(row.weight_norm > 0 for row in gates))


def closed_from(layers: Sequence[Layer], table: ParameterTable) -> int | None:
    """Index of the call from which on samples are equal up to the output; None if the output depends on them.

    None too where the last weight layer is zero: it only hides what is before it, which is measured already
    (`orthoscope.probe.record`).
    """
    weighted = [layer for layer in layers if layer.depth is not None]
    if not weighted or is_live_zero(weighted[-1], table):
        return None
    equal = list(itertools.takewhile(_equal, reversed(layers)))
    return equal[-1].index if equal else None


def is_live_zero(layer: Layer, table: ParameterTable) -> bool:
    """Whether a layer gives zero, or a bias alone, because of a gate that its first step opens."""
    rows = [row for row in table.of(layer.name) if row.is_gate and row.weight_norm == 0]
    return layer.status is Status.ZERO_BY_DESIGN and any(row.gets_gradient for row in rows)


def _equal(layer: Layer) -> bool:
    if layer.samples < 2 or layer.status is Status.NOT_FINITE:
        return False
    return layer.sample_view is None or 1 - layer.mean_energy < _EQUAL


@contextlib.contextmanager
def opened(model: nn.Module, table: ParameterTable) -> Iterator[None]:
    """Context in which every live gate has taken one step along the sign of its gradient; gradients are set aside."""
    live = {row.name for row in table.live_gates}
    gates = [parameter for name, parameter in floating_parameters(model) if name in live]
    # Written through `.data`, which the version counters of graphs that the user may hold do not see; and taken back
    # here, so that the guard of `untouched` has nothing to restore.
    before = [(parameter, parameter.data.clone()) for parameter in gates]
    try:
        with unguarded():
            for parameter, _ in before:
                if parameter.grad is not None:
                    parameter.data.sub_(parameter.grad.sgn(), alpha=_STEP)
        for parameter in model.parameters():
            parameter.grad = None
        yield
    finally:
        with unguarded():
            for parameter, value in before:
                parameter.data.copy_(value)
