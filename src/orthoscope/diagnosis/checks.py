"""Measures of the checks: from a recording to one number each, with the layer where a limit is first exceeded."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from orthoscope.diagnosis.depth import first_tokens, gradient_points, recurrent_from, representations_along
from orthoscope.diagnosis.projections import saturating_projection
from orthoscope.metrics import Slope, depth_slope
from orthoscope.probe import Layer, Recording, Representation, Status
from orthoscope.probe.gates import is_live_zero
from orthoscope.probe.trunk import TrunkPoint

TYPICAL_DEPTH = 50  # weight layers that limits are quoted for
# With fewer directions a rank means nothing: two samples always span a line.
_FEWEST_DIRECTIONS = 4
ENOUGH_DIRECTIONS = 21
TOKEN_IDS = "token ids have no directions"


@dataclass(frozen=True)
class CheckValue:
    """The number a rule compares with its limits, and where along the network each limit is crossed.

    `begins(limit)` names the layer from which on the value is beyond a limit, None if it never is; `words` fill in the
    sentence of the rule, and `cause` is the module to change, where the check knows it.
    """

    value: float
    begins: Callable[[float], str | None] = lambda limit: None
    standard_error: float | None = None
    weight_layers: int = TYPICAL_DEPTH  # of the network: some limits depend on its depth
    words: Mapping[str, str] = field(default_factory=dict)
    cause: str | None = None


class NotChecked(Exception):  # noqa: N818 - a reason, not an error
    """Raised by a measure that cannot be applied; its message is the reason given in the report."""


@dataclass(frozen=True)
class GradientProfile:
    """Log-norms of the gradient along depth, input to output, and their slope toward the input.

    Of the weight layers, or along the residual stream where there is one; the slope is per weight layer.
    """

    layers: tuple[Layer | TrunkPoint, ...]
    slope: Slope
    steps: float  # weight layers from the first place to the last

    @property
    def names(self) -> list[str]:
        """Names of the layers."""
        return [layer.name for layer in self.layers]

    @property
    def log_norms(self) -> list[float]:
        """Log-norm of the gradient at each of the layers."""
        return [math.log(layer.gradient_norm or math.nan) for layer in self.layers]

    @property
    def growth(self) -> float:
        """Change of the log-norm from the last weight layer to the first, along the fitted line."""
        return self.slope.value.item() * self.steps


def gradient_profile(recording: Recording) -> GradientProfile | None:
    """The places along depth whose gradient is finite and not zero, or None if there are fewer than three.

    Without those behind a zero-initialized gate: their gradient starts after its first step.
    """
    found = [
        (place, point)
        for place, point in _open_points(recording)
        if point.gradient_norm and math.isfinite(point.gradient_norm)
    ]
    if len(found) < 3:
        return None
    layers = tuple(point for _, point in found)
    norms = torch.tensor([layer.gradient_norm for layer in layers], dtype=torch.float64)
    # A plain network has one place a weight layer; those without a gradient are left out.
    steps = float(len(layers) - 1) if recording.trunk is None else max(1.0, found[-1][0] - found[0][0])
    slope, of_one = depth_slope(norms.log()), (len(layers) - 1) / steps
    return GradientProfile(layers, Slope(slope.value * of_one, slope.standard_error * of_one, slope.layers), steps)


def _open_points(recording: Recording) -> Iterator[tuple[float, Layer | TrunkPoint]]:
    """The places along depth that no zero-initialized gate closes."""
    # Where a gate closes the network, what is before it is measured in another state than what is behind it.
    first = recording.closed_from or 0
    closed = frozenset[str]() if first else recording.behind_gates
    begin = next((float(one.depth) for one in recording.layers[first:] if one.depth is not None), math.inf)
    for point, place in zip(*gradient_points(recording), strict=True):
        if (not first or place >= begin) and (isinstance(point, TrunkPoint) or point.name not in closed):
            yield place, point


def fitted_slope(log_norms: Sequence[float]) -> float:
    """The slope toward the input of log-norms that theory gives, nan where it has too few."""
    if len(log_norms) < 3 or not all(map(math.isfinite, log_norms)):
        return math.nan
    return depth_slope(torch.tensor(log_norms, dtype=torch.float64)).value.item()


def weight_layers(recording: Recording) -> int:
    """How many times a weight layer was called; at least one."""
    return max(1, sum(layer.depth is not None for layer in recording.layers))


def gradient_growth(recording: Recording) -> CheckValue:
    """Growth of the log-gradient from the output to the input; negative when it shrinks."""
    profile = _profile_or_reason(recording)
    names, error = profile.names, profile.slope.standard_error.item() * profile.steps
    found = growth_along(names, profile.log_norms, profile.growth, error, weight_layers(recording))
    # Gradients that pass a saturated softmax grow or vanish wherever that is: the cause is what saturates it.
    cause = saturating_projection(recording)
    return found if cause is None else replace(found, begins=lambda limit: cause)


def growth_along(
    names: Sequence[str], log_norms: Sequence[float], growth: float, standard_error: float | None, layers: int
) -> CheckValue:
    """A growth of the gradient; it begins nearest the output, where the log-norm leaves that of the last layer."""

    def begins(limit: float) -> str:
        sign, last = math.copysign(1, limit), log_norms[-1]
        toward_input = zip(reversed(names), reversed(log_norms), strict=True)
        return next((name for name, norm in toward_input if sign * (norm - last) > abs(limit)), names[0])

    return CheckValue(growth, begins, standard_error, layers)


def largest_gradient(recording: Recording) -> CheckValue:
    """Log-ratio of the largest gradient of a weight layer to that of the last one: finds a jump, which has no slope."""
    profile = _profile_or_reason(recording)
    return extreme_of(profile.names, profile.log_norms, max)


def smallest_gradient(recording: Recording) -> CheckValue:
    """Log-ratio of the smallest gradient of a weight layer to that of the last one, negative."""
    profile = _profile_or_reason(recording)
    return extreme_of(profile.names, profile.log_norms, min)


def extreme_of(names: Sequence[str], log_norms: Sequence[float], extreme: Callable[..., float]) -> CheckValue:
    """The largest or smallest log-norm above that of the last layer."""
    found = extreme(log_norms)
    return CheckValue(found - log_norms[-1], lambda limit: names[log_norms.index(found)])


def _profile_or_reason(recording: Recording) -> GradientProfile:
    if not recording.gradient_source:
        raise NotChecked("the output does not require a gradient")
    profile = gradient_profile(recording)
    if profile is None:
        layers = "weight layers outside of recurrence" if recording.time else "weight layers"
        raise NotChecked(f"fewer than 3 {layers} have a finite gradient that is not zero")
    return profile


def starved_layers(recording: Recording) -> CheckValue:
    """Number of weight layers, from the input on, whose gradient is exactly zero, up to the first that has a gradient.

    A zero between layers with a gradient belongs to a residual branch. Layers behind a zero-initialized gate get their
    gradient after its first step.
    """
    seen = [
        layer
        for layer in recording.layers
        if layer.depth is not None and layer.gradient_norm is not None
        if layer.gradient_norm or layer.name not in recording.behind_gates
    ]
    if not seen:
        raise NotChecked("no gradient was observed at any weight layer")
    starved = list(itertools.takewhile(lambda layer: layer.gradient_norm == 0, seen))
    return CheckValue(float(len(starved)), lambda limit: starved[-1].name if starved else None)


def cut_off_layers(recording: Recording) -> CheckValue:
    """Number of trainable weight layers without any gradient although the output depends on them: they are detached.

    Heads on which nothing depends are not counted.
    """
    if not recording.gradient_source:
        raise NotChecked("the output does not require a gradient")
    cut = [
        layer
        for layer in recording.layers
        if layer.depth is not None and layer.trainable
        if layer.gradient_norm is None and layer.weight_gradient_norm is None
        if layer.name not in recording.unused
    ]
    return CheckValue(float(len(cut)), lambda limit: cut[-1].name if cut else None)


def constant_outputs(recording: Recording) -> CheckValue:
    """1 if the output does not depend on the batch, 0 if it does."""
    if not recording.layers:
        raise NotChecked("no module was observed")
    constant = [layer for layer in recording.layers if layer.status is Status.CONSTANT]
    head = next((layer for layer in reversed(recording.layers) if layer.depth is not None), None)
    opens = head is not None and is_live_zero(head, recording.parameter_table)
    lost = bool(constant) and recording.layers[-1].status is Status.CONSTANT and recording.samples > 1 and not opens
    return CheckValue(float(lost), lambda limit: constant[0].name)


def non_finite_outputs(recording: Recording) -> CheckValue:
    """Number of module outputs with nan or infinite entries."""
    broken = [layer for layer in recording.layers if layer.status is Status.NOT_FINITE]
    return CheckValue(float(len(broken)), lambda limit: broken[0].name if broken else None)


def non_finite_gradients(recording: Recording) -> CheckValue:
    """Number of gradients with nan or infinite entries; begins at the one nearest the output."""
    gradients = [layer for layer in recording.layers if layer.gradient_norm is not None]
    if not gradients:
        raise NotChecked("no gradient was observed")
    broken = [layer for layer in gradients if not math.isfinite(layer.gradient_norm or 0.0)]
    return CheckValue(float(len(broken)), lambda limit: broken[-1].name if broken else None)


def sample_rank(recording: Recording) -> CheckValue:
    """Effective rank of the samples toward the output, as a share of that of a healthy network."""
    # Directions lost in a bottleneck cannot return: the capacity is that of the narrowest layer so far.
    narrowest: dict[int, float] = {}
    for layer in recording.layers:
        before = narrowest.get(layer.index - 1, math.inf)
        narrowest[layer.index] = before if layer.depth is None or layer.branch else min(before, layer.capacity)

    def share(layer: Layer) -> float | None:
        possible = min(layer.capacity, narrowest[layer.index])
        return _rank_share(layer.sample_view, int(possible))

    return _persistent(recording, share, "samples")


def token_rank(recording: Recording) -> CheckValue:
    """The same for the tokens of a sequence, as a share of that of the first tokens: what is in the data is no loss."""
    first, recurs = first_tokens(recording), recurrent_from(recording)
    at_first = None if first is None else _token_rank_share(first)

    def kept(layer: Layer) -> float | None:
        share = None if layer.index >= recurs else _token_rank_share(layer)
        return share if share is None or not at_first else min(1.0, share / at_first)

    return _persistent(recording, kept, "tokens")


def sample_angles(recording: Recording) -> CheckValue:
    """1 minus the mean cosine of two samples toward the output: 0 when all have one direction."""
    return _persistent(recording, lambda layer: _spread(layer.sample_view), "samples")


def token_angles(recording: Recording) -> CheckValue:
    """The same for two tokens of a sequence, relative to the first tokens: attention can merge them alone."""
    first, recurs = first_tokens(recording), recurrent_from(recording)
    at_first = None if first is None else _spread(first.token_view)

    def kept(layer: Layer) -> float | None:
        spread = None if layer.index >= recurs else _spread(layer.token_view)
        return spread if spread is None or not at_first else spread / min(1.0, at_first)

    return _persistent(recording, kept, "tokens")


def input_variation(recording: Recording) -> CheckValue:
    """Share of the input's energy that is around its mean: 0 when all samples are the same."""
    _several_samples(recording)
    view = recording.input.sample_view
    return CheckValue(0.0 if view is None else max(0.0, 1 - view.mean_energy), lambda limit: "input")


def input_rank(recording: Recording) -> CheckValue:
    """The same for the samples of the batch itself."""
    _several_samples(recording)
    if not recording.input.kind.startswith(("float", "bfloat")):
        raise NotChecked(TOKEN_IDS)
    share = _rank_share(recording.input.sample_view, recording.input.capacity)
    if share is None:
        raise NotChecked(f"a rank needs at least {_FEWEST_DIRECTIONS} samples and units")
    return CheckValue(share, lambda limit: "input")


def _several_samples(recording: Recording) -> None:
    if recording.samples < 2:
        raise NotChecked("the batch has one sample: give at least 8 to compare")


def _rank_share(view: Representation | None, capacity: int) -> float | None:
    return None if view is None else rank_share(view.effective_rank, capacity)


def rank_share(effective_rank: float, capacity: int) -> float | None:
    """(effective rank - 1)/(enough - 1): 0 for one direction, 1 for enough or more; None where a rank means nothing.

    The rank of a collapsed network hardly depends on the number of samples, so it is compared with a number of
    directions that is enough, not with all that are possible, unless those are fewer.
    """
    if capacity < _FEWEST_DIRECTIONS or math.isnan(effective_rank):
        return None
    return min(1.0, (effective_rank - 1) / (min(capacity, ENOUGH_DIRECTIONS) - 1))


def _token_rank_share(layer: Layer) -> float | None:
    return _rank_share(layer.token_view, min(layer.tokens, layer.shape[-1]))


def _spread(view: Representation | None) -> float | None:
    return None if view is None or math.isnan(view.overlap) else 1 - view.overlap


def _persistent(recording: Recording, value: Callable[[Layer], float | None], what: str) -> CheckValue:
    _several_samples(recording)
    # A gate that opens gives samples one direction at first: ranks behind it are no symptom.
    end = len(recording.layers) if recording.closed_from is None else recording.closed_from
    candidates = [
        [(layer, number) for layer in rows if layer.index < end and (number := value(layer)) is not None]
        for rows in (recording.layers, representations_along(recording))
    ]
    if not candidates[0]:
        raise NotChecked(f"no module has an output with enough {what} and units")
    # What a branch loses the stream keeps, and what a stream mixes a normalized branch takes apart: it must be both.
    values = max(filter(None, candidates), key=lambda found: lasting_value([number for _, number in found]))

    def begins(limit: float) -> str | None:
        low = [number < limit for _, number in values]
        start = lasting_start(low)
        return values[len(low) - 1 - low[::-1].index(True) if start is None else start][0].name

    ended = lasting_value([number for _, number in values])
    return CheckValue(ended, begins, weight_layers=weight_layers(recording))


def lasting_start(low: Sequence[bool]) -> int | None:
    """Where a state begins that lasts to the end, as the start that maximizes (low minus not low); None if none does.

    A gate or a head with ten outputs may differ for one layer; a few such layers neither end a collapse nor make one.
    """
    best, start, total = 0, None, 0
    for index in range(len(low) - 1, -1, -1):
        total += 1 if low[index] else -1
        if total > best and low[index]:
            best, start = total, index
    return start


def lasting_value(values: Sequence[float]) -> float:
    """The lower median over the last tenth of the layers, at least the last three."""
    return statistics.median_low(values[-max(3, len(values) // 10) :])
