"""Remarks on what a pass showed and what is no symptom: closed gates, unused heads, a dead branch, large inputs."""

from collections.abc import Iterable, Iterator

from orthoscope.diagnosis.loss_checks import is_normalized_away
from orthoscope.diagnosis.training_checks import bypassed_layers, silent_layers
from orthoscope.probe import Recording

_NAMES = 3  # that a note lists


def notes_on_training(recording: Recording) -> tuple[str, ...]:
    """Return the remarks, each one sentence."""
    return tuple(_notes(recording))


def _notes(recording: Recording) -> Iterator[str]:
    if recording.closed_from is not None:
        yield "measured after one step of the zero-initialized gates, because nothing passes the network before it"
    elif recording.behind_gates:
        behind = _listed(recording.behind_gates)
        yield f"zero-initialized branches: gradients behind them start after the first step ({behind})"
    if recording.unused:
        yield f"unused heads get no gradient, because nothing depends on them: {_listed(recording.unused)}"
    dead = dict.fromkeys([one.name for one in (*bypassed_layers(recording), *silent_layers(recording))])
    if dead:
        yield f"dead branches, which skips bypass: zero output or zero gradient in {_listed(dead)}"
    if recording.parameter_table.skipped:
        yield f"not looked at, because they are integers (quantized): {_listed(recording.parameter_table.skipped)}"
    if is_normalized_away(recording):
        yield f"the batch has root mean square {recording.input.rms:.3g}, a scale that normalization removes"


def _listed(names: Iterable[str]) -> str:
    """The first names and how many more."""
    order = list(names) if isinstance(names, dict) else sorted(names)
    shown = ", ".join(name or "the whole network" for name in order[:_NAMES])
    return shown + (f" and {len(order) - _NAMES} more" if len(order) > _NAMES else "")
