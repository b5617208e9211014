"""Predictions of theory for a network, module by module, to be compared with measurements."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import nn

from orthoscope.diagnosis.inspection import initial_arguments, mlp_hyperparameters
from orthoscope.probe import Layer, Recording
from orthoscope.theory import (
    Inputs,
    NoTheory,
    Propagation,
    Signal,
    Source,
    effective_rank,
    gap_of_overlaps,
    isometry_gap_of_overlaps,
    propagate,
    sources_of,
)


@dataclass(frozen=True)
class Expected:
    """The numbers that theory predicts for a `Layer`; nan where it has none."""

    rms: float
    overlap: float
    gap: float
    effective_rank: float
    isometry_gap: float
    gradient_norm: float


@dataclass(frozen=True)
class Expectation:
    """The predictions of theory for a network, computed when first asked for, or the reason why there are none."""

    refusal: str = ""  # why there is no prediction; empty if there may be one
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the network
    inputs: Inputs | None = None
    output_gradient: float = math.nan  # log-norm at the network's output, where backpropagation starts

    @property
    def reason(self) -> str:
        """Why there is no prediction, empty if there is one."""
        return self.refusal or self._computed[1]

    @cached_property
    def signals(self) -> Mapping[str, Signal]:
        """By the name of the module whose output it is."""
        found = self._computed[0]
        return {} if found is None else _signals(found)

    @cached_property
    def log_gradients(self) -> Mapping[str, float]:
        """By the name of the linear layer at whose output it is."""
        found = self._computed[0]
        if found is None or math.isnan(self.output_gradient):
            return {}
        names = [f"{_branch_name(found, index)}.linear" for index in range(len(found.layers))]
        pairs = zip(names if found.head is None else [*names, "head"], found.log_gradients(), strict=True)
        return {name: value + self.output_gradient for name, value in pairs if not math.isnan(value)}

    @property
    def sources(self) -> tuple[Source, ...]:
        """The statements it rests on."""
        found = self._computed[0]
        return () if found is None else sources_of(found.network)

    def of(self, layer: Layer) -> Expected | None:
        """The prediction for a module call, None where theory has none."""
        names = (layer.name, *layer.also)
        name = next((name for name in names if name in self.signals), None)
        if name is None or layer.call > 0:
            return None
        log_gradient = next((self.log_gradients[name] for name in names if name in self.log_gradients), math.nan)
        return expected_numbers(self.signals[name], layer.samples, layer.units, log_gradient)

    @cached_property
    def _computed(self) -> tuple[Propagation | None, str]:
        if self.refusal or self.inputs is None:
            return None, self.refusal
        try:
            return propagate(mlp_hyperparameters(self.arguments), self.inputs, self.arguments["depth"]), ""
        except (ValueError, ArithmeticError) as reason:  # NoTheory, or what cannot be integrated or held
            return None, str(reason)


def expected_numbers(signal: Signal, samples: int, units: int, log_gradient: float = math.nan) -> Expected:
    """The numbers that follow from a signal; a rank only if there are at least as many units as samples."""
    spread = samples * signal.difference_variance
    enough = units >= samples > 1
    return Expected(
        rms=math.sqrt(signal.mean_square),
        overlap=signal.overlap,
        gap=gap_of_overlaps(samples, signal.overlap, signal.overlap_variance) if samples > 1 else math.nan,
        effective_rank=effective_rank(samples, signal.overlap, spread, units) if enough else math.nan,
        isometry_gap=isometry_gap_of_overlaps(samples, signal.overlap, spread, units) if enough else math.nan,
        gradient_norm=_exp(log_gradient),
    )


def expectation(model: nn.Module, recording: Recording, batch_statistics: bool = True) -> Expectation:
    """Prepare a prediction from the arguments of the network and its batch alone, not from measurements inside it.

    The norm of the gradient at the network's output, where backpropagation starts, is given, like the batch.
    """
    try:
        arguments = initial_arguments(model)
        if arguments["norm"] == "batch" and not batch_statistics:
            raise NoTheory("theory is of batch norm with the statistics of the batch, not running ones")
        gradients = [layer.gradient_norm for layer in recording.layers if layer.depth is not None]
        output_gradient = math.log(gradients[-1]) if gradients and gradients[-1] else math.nan
        return Expectation("", arguments, _inputs(recording), output_gradient)
    except (ValueError, ArithmeticError) as reason:  # NoTheory, or a batch that theory cannot start from
        return Expectation(str(reason))


def _inputs(recording: Recording) -> Inputs:
    view, samples = recording.input.sample_view, recording.samples
    if view is None or math.isnan(view.overlap):
        raise NoTheory("the batch has no angles to start from")
    pairs = 1 - 1 / recording.input.samples
    variance = max(0.0, view.gap**2 / pairs - view.overlap**2)
    rest = 1 - view.overlap
    return Inputs(samples, recording.input.rms**2, view.overlap, variance, variance / rest**2 if rest > 0 else math.inf)


def _signals(found: Propagation) -> dict[str, Signal]:
    signals: dict[str, Signal] = {}
    for index, layer in enumerate(found.layers):
        name = _branch_name(found, index)
        signals[f"{name}.linear"] = layer.linear
        signals[f"{name}.activation"] = layer.activation
        if layer.norm is not None:
            signals[f"{name}.norm"] = layer.norm
        signals[f"layers.{index}"] = layer.output
    if found.head is not None:
        signals["head"] = found.head
    return signals


def _branch_name(found: Propagation, index: int) -> str:
    return f"layers.{index}" if found.network.skip(index) is None else f"layers.{index}.branch"


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf
