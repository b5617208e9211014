"""The gradient of the loss over the time steps of a recurrent layer: time is a depth that one row of a layer hides.

Of `nn.RNN`, `nn.LSTM` and `nn.GRU` the gradient with respect to the input is taken step by step: what arrives at the
first step has passed the recurrence as often as there are steps. Of cells that a loop calls, the hidden states are
outputs, whose gradients are known already.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils.hooks import RemovableHandle

from orthoscope.probe.restore import unguarded
from orthoscope.probe.samples import evenly_spaced

SATURATED = 0.97  # size of an activation between -1 and 1; of a gate, of its distance from one half, doubled
FEWEST_STEPS = 3
# A step is reached if its gradient is at least this share of the largest.
_REACHED = 1e-3
_SAMPLES = 4


@dataclass(frozen=True)
class TimeProfile:
    """The gradient along the time steps of one recurrent layer.

    Attributes:
        module: Name of the module.
        kind: LSTM, GRU, RNN, or the cell.
        steps: Number of time steps.
        log_norms: Log-norm of the gradient at every step, first to last; minus infinity where it is zero.
        growth: Change of the log-norm from the last step that has a gradient to the first; negative when it shrinks.
            For a layer that reads both ways, of the largest gradient above that of the ends.
        reach: Steps, up to the last, whose gradient is at least a thousandth of the largest.
        saturation: Share of gates and states that are saturated; None for units without a bound.
        loss_at: "the last step" or "all steps": where the loss looks at the output.
    """

    module: str
    kind: str
    steps: int
    log_norms: tuple[float, ...]
    growth: float
    reach: int
    saturation: float | None
    loss_at: str

    @property
    def growth_per_step(self) -> float:
        """Growth of the log-norm per step into the past."""
        return self.growth / max(1, self.steps - 1)

    def __str__(self) -> str:
        saturated = "" if self.saturation is None else f", {self.saturation:.0%} saturated"
        return f"{self.module}: {self.steps} steps, {self.growth:+.2g} e-folds into the past{saturated}"

    __repr__ = __str__


def time_growth(log_norms: Sequence[float], both_ways: bool = False) -> float:
    """Change of the log-norm from the last step with a gradient to the first; nan without a gradient."""
    seen = [index for index, one in enumerate(log_norms) if one > -math.inf]
    if not seen:
        return math.nan
    if both_ways:
        return max(log_norms) - max(log_norms[seen[0]], log_norms[seen[-1]])
    return log_norms[0] - log_norms[seen[-1]]


@dataclass
class _Layer:
    """What one call of a recurrent layer leaves until the backward pass has ended."""

    name: str
    module: nn.RNNBase
    steps: int
    saturation: float | None
    inputs: list[float] = field(default_factory=list)  # norms of the gradient, by step
    outputs: list[float] = field(default_factory=list)


@dataclass
class TimeObserver:
    """Follows the gradient at every step of the recurrent layers and cells of a model."""

    layers: list[_Layer] = field(default_factory=list)
    _gates: dict[str, list[float]] = field(default_factory=dict)  # saturation of cells, by call
    _handles: list[RemovableHandle] = field(default_factory=list)

    def attach(self, name: str, module: nn.Module) -> None:
        """Put hooks on a recurrent layer or cell; other modules are left alone."""
        if isinstance(module, nn.RNNBase):
            self._handles.append(module.register_forward_pre_hook(self._entering(name)))
            self._handles.append(module.register_forward_hook(self._leaving(name)))
        elif isinstance(module, nn.RNNCellBase):
            self._handles.append(module.register_forward_hook(self._cell(name)))

    def close(self) -> None:
        """Remove the hooks."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _entering(self, name: str) -> Callable[..., Any]:
        """Give the layer an alias of its input: the gradient there is what passes through this layer alone."""

        def enter(module: nn.RNNBase, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
            if not args or not torch.is_grad_enabled():
                return None
            packed = args[0] if isinstance(args[0], PackedSequence) else None
            data = args[0] if packed is None else packed.data
            alias = data.view_as(data) if data.requires_grad else data.detach().requires_grad_()
            sizes = None if packed is None else packed.batch_sizes.tolist()
            steps = len(sizes) if sizes else data.shape[_time_axis(module, data)]
            with unguarded(), torch.no_grad():
                saturation = None if packed is not None else layer_saturation(module, data.detach())
            layer = _Layer(name, module, steps, saturation)
            self.layers.append(layer)
            alias.register_hook(self._following(layer.inputs, module, sizes))
            return (alias if packed is None else packed._replace(data=alias), *args[1:])

        return enter

    def _leaving(self, name: str) -> Callable[..., None]:
        def leave(module: nn.RNNBase, args: Any, output: Any) -> None:
            layer = next((one for one in reversed(self.layers) if one.name == name), None)
            sequence = output[0] if isinstance(output, tuple) else None
            if layer is not None and isinstance(sequence, Tensor) and sequence.requires_grad:
                sequence.register_hook(self._following(layer.outputs, module, None))

        return leave

    def _following(self, norms: list[float], module: nn.RNNBase, sizes: Sequence[int] | None) -> Callable[..., None]:
        def follow(gradient: Tensor) -> None:
            with unguarded(), torch.no_grad():
                norms[:] = _norms_by_step(gradient, _time_axis(module, gradient), sizes)

        return follow

    def _cell(self, name: str) -> Callable[..., None]:
        def leave(module: nn.RNNCellBase, args: Any, output: Any) -> None:
            with unguarded(), torch.no_grad():
                state = output[0] if isinstance(output, tuple) else output
                share = cell_saturation(module, args, state)
                if share is not None:
                    self._gates.setdefault(name, []).append(share)

        return leave

    def profiles(self, calls: Sequence[Any]) -> tuple[TimeProfile, ...]:
        """Return a row for every recurrent layer and every cell that a loop called; `calls` are the module calls."""
        rows = [_of_layer(layer) for layer in self.layers if layer.steps >= FEWEST_STEPS and any(layer.inputs)]
        by_cell: dict[str, list[Any]] = {}
        for call in calls:
            if isinstance(call.module, nn.RNNCellBase):
                by_cell.setdefault(call.name, []).append(call)
        for name, steps in by_cell.items():
            if len(steps) >= FEWEST_STEPS and any(call.gradient_norm for call in steps):
                rows.append(_of_cell(name, steps, self._gates.get(name)))
        return tuple(rows)


def _of_layer(layer: _Layer) -> TimeProfile:
    earlier = layer.outputs[:-1]
    last_only = not any(earlier) if layer.outputs else True
    return _profile(
        layer.name, layer.module, layer.inputs, layer.saturation, layer.module.bidirectional, last_only
    )  # fmt: skip


def _of_cell(name: str, calls: Sequence[Any], gates: list[float] | None) -> TimeProfile:
    saturation = sum(gates) / len(gates) if gates else None
    # The gradient at a state is that of all later steps as well: where the loss looks is not seen.
    return _profile(name, calls[0].module, [call.gradient_norm or 0.0 for call in calls], saturation, False, False)


def _profile(
    name: str, module: nn.Module, norms: Sequence[float], saturation: float | None, both_ways: bool, last_only: bool
) -> TimeProfile:
    logs = tuple(math.log(one) if one > 0 else (-math.inf if one == 0 else one) for one in norms)
    largest = max(norms)
    reached = [index for index, one in enumerate(norms) if one >= _REACHED * largest]
    return TimeProfile(
        module=name,
        kind=type(module).__name__,
        steps=len(norms),
        log_norms=logs,
        growth=time_growth(logs, both_ways),
        reach=len(norms) - reached[0] if reached else 0,
        saturation=saturation,
        loss_at="the last step" if last_only else "all steps",
    )


def _time_axis(module: nn.RNNBase, sequence: Tensor) -> int:
    return 1 if module.batch_first and sequence.ndim == 3 else 0


def _norms_by_step(gradient: Tensor, axis: int, sizes: Sequence[int] | None) -> list[float]:
    """Norm of the gradient at every step, in float64; `sizes` are those of a packed sequence."""
    rows = gradient.double()
    if sizes is not None:
        return [float(one.norm()) for one in rows.split(list(sizes))]
    norms: list[float] = rows.movedim(axis, 0).flatten(1).norm(dim=1).tolist()
    return norms


def layer_saturation(module: nn.RNNBase, sequence: Tensor) -> float | None:
    """Share of saturated gates and states of all layers, for a few samples that start from zero; None without bounds.

    Every layer of a stack is run by itself, forward in time, so that its gates can be computed from its states.
    """
    if module.mode == "RNN_RELU" or sequence.ndim != 3:
        return None
    states = sequence.movedim(_time_axis(module, sequence), 0)
    states = states[:, evenly_spaced(states.shape[1], _SAMPLES)]
    directions = 2 if module.bidirectional else 1
    weights = module.all_weights
    shares = []
    for layer in range(module.num_layers):
        own = [one.detach() for part in weights[layer * directions : (layer + 1) * directions] for one in part]
        inputs, states = states, _run(module, states, own, directions)
        size = module.proj_size or module.hidden_size
        before = torch.cat([torch.zeros_like(states[:1, :, :size]), states[:-1, :, :size]])
        shares.append(_gate_saturation(module.mode, own, inputs, before, states[..., :size], module.bias))
    return sum(shares) / len(shares)


def _run(module: nn.RNNBase, states: Tensor, weights: list[Tensor], directions: int) -> Tensor:
    """The outputs of one layer of a stack."""
    hidden = states.new_zeros(directions, states.shape[1], module.proj_size or module.hidden_size)
    start: Any = hidden
    if module.mode == "LSTM":
        start = (hidden, states.new_zeros(directions, states.shape[1], module.hidden_size))
    runs: dict[str, Callable[..., Any]] = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh}
    result: Tensor = runs[module.mode](states, start, weights, module.bias, 1, 0.0, False, directions == 2, False)[0]
    return result


def cell_saturation(module: nn.RNNCellBase, args: Sequence[Any], state: Tensor) -> float | None:
    """The same for one call of a cell."""
    if getattr(module, "nonlinearity", "tanh") != "tanh" or state.ndim != 2 or not args:
        return None
    mode = {nn.LSTMCell: "LSTM", nn.GRUCell: "GRU", nn.RNNCell: "RNN_TANH"}.get(type(module))
    if mode is None:
        return None
    few = evenly_spaced(len(state), _SAMPLES)
    before = args[1] if len(args) > 1 else None
    before = before[0] if isinstance(before, tuple) else before
    previous = torch.zeros_like(state) if before is None else before.detach()
    weights = [module.weight_ih.detach(), module.weight_hh.detach()]
    if module.bias:
        weights += [module.bias_ih.detach(), module.bias_hh.detach()]
    return _gate_saturation(mode, weights, args[0].detach()[few], previous[few], state.detach()[few], module.bias)


def _gate_saturation(
    mode: str, weights: Sequence[Tensor], inputs: Tensor, before: Tensor, after: Tensor, has_bias: bool
) -> float:
    if mode == "RNN_TANH":
        return float((after.abs() > SATURATED).float().mean())
    from_input, from_state = inputs @ weights[0].mT, before @ weights[1].mT
    if has_bias:
        from_input, from_state = from_input + weights[2], from_state + weights[3]
    if mode == "GRU":  # reset, update, new
        gates, size = (from_input + from_state)[..., : 2 * after.shape[-1]], after.shape[-1]
        new = from_input[..., 2 * size :] + gates[..., :size].sigmoid() * from_state[..., 2 * size :]
    else:  # input, forget, cell, output
        first, second, cell, last = (from_input + from_state).chunk(4, -1)
        gates, new = torch.cat([first, second, last], -1), cell
    sizes = torch.cat([(gates / 2).tanh().abs(), new.tanh().abs()], -1)
    return float((sizes > SATURATED).float().mean())
